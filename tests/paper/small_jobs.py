"""Small jobs in a module of their own, so that workers can import their functions; and ``whvi reproduce small``."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from whvi_paper.blocks import Shown
from whvi_paper.jobs import Inputs, Job, Report, Results

NAME = "small"
GATE = "WHVI_TEST_GATE"
"""Names a file in the environment: ``guarded`` waits until it is there."""
PATIENCE = 300.0
"""Seconds that anything may take on a busy machine."""

Function = Callable[[Sequence[Inputs], Path, Report], Sequence[Results]]


def make(function: Function, number: int, cost: float = 1.0, **more: Any) -> Job:
    return Job(NAME, f"job {number}", ({"number": number, **more},), function, cost)


def wait_for(path: Path, text: str = "") -> None:
    """Until the path is there and, if a text is given, has it in it."""
    end = time.monotonic() + PATIENCE
    while not path.exists() or (text and text not in path.read_text()):
        if time.monotonic() > end:
            raise TimeoutError(path)
        time.sleep(0.02)


def after(inputs: Inputs) -> tuple[Path, str]:
    return Path(inputs["file"]), inputs["text"]


def double(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    return [{"metrics": {"double": 2 * one["number"], "process": os.getpid()}} for one in inputs]


def threads(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    return [{"metrics": {"threads": torch.get_num_threads()}} for _ in inputs]


def fail(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    raise RuntimeError("as it was meant to")


def double_after(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """Ends only when another record is kept."""
    wait_for(*after(inputs[0]))
    return double(inputs, folder, report)


def die_after(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """As a process that the system kills for its memory."""
    wait_for(*after(inputs[0]))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def guarded(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """Job 0 ends at once; the others say who they are, and wait for the gate."""
    if inputs[0]["number"]:
        (folder / "process").write_text(str(os.getpid()))
        wait_for(Path(os.environ[GATE]))
    return double(inputs, folder, report)


def jobs(profile: str) -> list[Job]:
    return [make(guarded, number, cost=9.0 - number) for number in range(4)]


def show(records: Sequence[Any]) -> Shown:
    return Shown(NAME, "Small jobs", "no paper", f"{len(records)} records", [])


EXHIBIT = SimpleNamespace(NAME=NAME, TITLE="Small jobs", SOURCE="no paper", jobs=jobs, show=show)


def main() -> None:
    """The command line with this exhibit in it."""
    from whvi import cli
    from whvi_paper.exhibits import EXHIBITS

    EXHIBITS[NAME] = EXHIBIT
    cli.main()
