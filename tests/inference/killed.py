"""Run by ``test_kill.py`` in a fresh process: fits that are killed without warning, and one that is not.

``python killed.py FOLDER KILLS``: prints one line of JSON, the sha256 of the undisturbed result, of the result after
all kills, the step of the last checkpoint at each kill, and how many steps the kill cost.
"""

import hashlib
import json
import mmap
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from whvi.inference import SVI, Checkpoint, Every, fit
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear

STEPS, INTERVAL = 200, 2
REACHED = mmap.mmap(-1, 8)
"""The last step that was computed: memory that a process and its copies share."""


def reached() -> int:
    """The last step that any copy of this process has computed."""
    return int.from_bytes(REACHED[:8], "little")


def note(step: int) -> None:
    """Note that a step was computed."""
    REACHED[:8] = step.to_bytes(8, "little")


def train(folder: Path, steps: int = STEPS) -> None:
    """A short fit with a checkpoint after every second step; its result goes to a file beside the folder."""
    torch.manual_seed(0)
    x = torch.randn(64, 3)
    model = nn.Sequential(WHVILinear(3, 8, posterior="planar:2"), nn.ReLU(), nn.Dropout(0.2), MeanFieldLinear(8, 1))
    likelihood = Gaussian(frozen_steps=50)
    fit(
        model,
        likelihood,
        (x, x.sum(1).sin()),
        steps=steps,
        algorithm=SVI(1e-2),
        batch_size=10,
        callbacks=[Every(1, lambda moment: note(moment.step)), Checkpoint(folder, INTERVAL)],
    )
    digest = hashlib.sha256()
    for module in (model, likelihood):
        for name, tensor in sorted(module.state_dict().items()):
            digest.update(name.encode() + tensor.numpy().tobytes())
    folder.with_suffix(".sha256").write_text(digest.hexdigest())


def child(work: Callable[[], None]) -> int:
    """Start ``work`` in a copy of this process; its process number."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return number


def main(root: Path, kills: int) -> None:
    """Kill at random moments of a run's length, then let it end."""
    torch.set_num_threads(1)
    train(root / "warm", steps=3)  # what torch loads late is loaded here, once, and not in each copy
    start = time.perf_counter()
    assert os.waitpid(child(lambda: train(root / "whole")), 0)[1] == 0
    length = time.perf_counter() - start
    moments = random.Random(0)
    places, lost = [], []
    folder = root / "killed"
    note(0)
    while len(places) < kills:
        number = child(lambda: train(folder))
        time.sleep(moments.random() * length * 0.1)
        os.kill(number, signal.SIGKILL)
        status = os.waitpid(number, 0)[1]
        if os.WIFSIGNALED(status):
            places.append((checkpoint.steps(folder) or [0])[-1])
            lost.append(reached() - places[-1])
        else:  # it was at its end already: begin again
            for path in folder.iterdir():
                path.unlink()
            note(0)
    assert os.waitpid(child(lambda: train(folder)), 0)[1] == 0
    results = [(root / f"{name}.sha256").read_text() for name in ("whole", "killed")]
    print(json.dumps([*results, places, lost]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
