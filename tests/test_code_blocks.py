"""Every block of code in README and documentation: Python runs, and command lines are those of the program.

Blocks with ``exec=`` are left out: they are run when the documentation is built, and its strict build fails with them.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch
from typer.main import get_command

from whvi import cli
from whvi.predictive import Prediction

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "examples/README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(?P<head>[^\n`]*)\n(?P<body>.*?)^\1```$", flags=re.MULTILINE | re.DOTALL)
ENVIRONMENT = re.compile(r"[A-Z_]+=")


def blocks(page: Path, *languages: str) -> Iterator[tuple[int, str]]:
    """The blocks of these languages that are not run by the build: the line where each begins, and its text."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        language, *options = found["head"].split() or [""]
        if language in languages and not any(option.startswith("exec=") for option in options):
            yield text.count("\n", 0, found.start("body")), found["body"]


def with_blocks(*languages: str) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in PAGES if any(blocks(page, *languages))]


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each call of ``whvi`` in blocks of shell; of a session, what follows its prompt."""
    for language in ("bash", "console"):
        for _, body in blocks(page, language):
            lines = body.replace("\\\n", " ").splitlines()
            if language == "console":
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            for line in lines:
                words = shlex.split(line, comments=True)
                while words and ENVIRONMENT.match(words[0]):
                    words.pop(0)
                if words and words[0] == "torchrun" and "whvi" in words:
                    words = words[words.index("whvi") :]
                if words and words[0] == "whvi":
                    yield words[1:]


def calls() -> list[tuple[str, list[str]]]:
    return [(str(page.relative_to(ROOT)), call) for page in PAGES for call in commands(page)]


@pytest.mark.parametrize("page", with_blocks("python"))
def test_python_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, and in one namespace: a later block may use what an earlier one has made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__page__", type(sys)("__page__"))  # dataclasses look their module up
    names: dict[str, object] = {"__name__": "__page__"}
    for line, body in blocks(ROOT / page, "python"):
        exec(compile("\n" * line + body, str(ROOT / page), "exec"), names)


def test_the_run_of_the_first_page_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it says: interrupted or not, the same lines resume from the checkpoint."""
    monkeypatch.chdir(tmp_path)
    body = next(body for _, body in blocks(ROOT / "docs/start.md", "python") if "Checkpoint(" in body)
    means = []
    for _ in range(2):
        names: dict[str, object] = {}
        exec(body, names)
        prediction = names["prediction"]
        assert isinstance(prediction, Prediction)
        means.append(prediction.mean)
    assert torch.equal(*means)


@pytest.mark.parametrize(("page", "call"), calls(), ids=[" ".join(call) for _, call in calls()])
def test_commands_exist(page: str, call: list[str]) -> None:
    """The command is one of ``whvi``, and takes these arguments and options; nothing is run."""
    command = get_command(cli.build_app())
    context = command.make_context("whvi", [], resilient_parsing=True)
    while hasattr(command, "commands") and call and not call[0].startswith("-"):
        assert call[0] in command.commands, f"{page}: whvi has no command {call[0]!r}"
        command, call = command.commands[call[0]], call[1:]
    command.make_parser(context).parse_args(list(call))


def test_pages_have_commands_of_the_experiments_too() -> None:
    assert entry_points(group="whvi.commands"), "the experiments are not installed, so their commands cannot be checked"
    assert {"reproduce", "train", "summary"} <= {call[0] for _, call in calls()}


def test_languages_are_known() -> None:
    """A block of Python that calls itself something else would not be run."""
    known = {"", "bash", "console", "math", "python", "text", "toml", "json", "csv"}
    found = {(found["head"].split() or [""])[0] for page in PAGES for found in FENCE.finditer(page.read_text())}
    assert found <= known, os.linesep.join(sorted(found - known))
