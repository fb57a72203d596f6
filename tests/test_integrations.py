"""Each script of ``examples/integrations`` runs in miniature, ends in a table, and is short."""

import runpy
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "examples/integrations"
PACKAGES: dict[str, tuple[str, ...]] = {
    "plain_loop": (),
    "generate": ("transformers",),
    "huggingface_trainer": ("transformers", "accelerate"),
    "accelerate_loop": ("transformers", "accelerate"),
    "peft_beside": ("transformers", "peft"),
    "lightning_module": ("transformers", "lightning"),
}
"""What each script needs, in an order in which the first is light."""


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of a script, which is not run."""
    for package in PACKAGES[name]:
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.syspath_prepend(FOLDER)
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("name", PACKAGES)
def test_an_integration_ends_in_a_table(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script(name, monkeypatch)["main"](steps=2, rows=64)
    lines = reversed(capsys.readouterr().out.splitlines())
    table = list(takewhile(lambda line: line.startswith("|"), lines))
    assert len(table) >= 3
    assert len({line.count("|") for line in table}) == 1


def test_scripts_are_short_and_known() -> None:
    files = {path.stem: path.read_text() for path in FOLDER.glob("*.py") if path.stem != "task"}
    assert files.keys() == PACKAGES.keys()
    assert all(len(text.splitlines()) < 60 for text in files.values())


@pytest.mark.filterwarnings("ignore")
def test_the_plain_loop_learns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: minus the bound is the loss; what is trained is better than a guess, which has an error of 0.6."""
    torch.manual_seed(0)
    script("plain_loop", monkeypatch)["main"](steps=60, rows=256)
    row = capsys.readouterr().out.splitlines()[-1]
    assert float(row.split("|")[2]) < 0.4
