"""Commands that another package adds, such as the one that makes exhibits."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from whvi import cli
from whvi_paper.exhibits import EXHIBITS, covariance


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["whvi", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    return int(leaving.value.code or 0)


def test_command_computes_a_record_once_and_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("covariance", "--profile", "smoke", "--backend", "sequential", "--results", str(tmp_path / "results"))
    page = tmp_path / "new" / "folder"
    for done in ("1 computed, 0 were there", "0 computed, 1 were there"):
        assert run(monkeypatch, "reproduce", *arguments, "--out", str(page)) == 0
        assert f"covariance: {done}, 0 failed" in capsys.readouterr().out
    assert covariance.TITLE in (page / "covariance.html").read_text()


def test_unknown_exhibit_names_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "reproduce", "nonsense", "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert "'nonsense'" in error
    assert all(name in error for name in EXHIBITS)
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_help_has_an_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "reproduce", "--help") == 0
    assert "Example: whvi reproduce" in capsys.readouterr().out


def test_stated_commands_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By pyproject.toml itself, whatever is installed."""
    stated = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]["entry-points"]
    entries = [EntryPoint(name, value, "whvi.commands") for name, value in stated["whvi.commands"].items()]
    monkeypatch.setattr(cli, "entry_points", lambda group: entries)
    assert run(monkeypatch, "--help") == 0
    output = capsys.readouterr()
    assert output.err == ""
    commands = ("doctor", "bench", "summary", "fit", "predict", "reproduce", "demo", "train", "report", "results")
    assert all(f" {name} " in output.out for name in commands)


def test_broken_plug_in_does_not_spoil_the_other_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("broken", "package_that_is_not_there:add_commands", "whvi.commands")
    working = EntryPoint("reproduce", "whvi_paper.cli:add_commands", "whvi.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: [broken, working])
    assert run(monkeypatch, "bench", "--help") == 0
    output = capsys.readouterr()
    assert "Example: whvi bench" in output.out
    assert output.err.startswith("whvi: the commands of package_that_is_not_there:add_commands are left out: ")


def test_the_only_command_keeps_its_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without other packages, too: typer would make an app of one command that command."""
    monkeypatch.setattr(cli, "entry_points", lambda group: [])
    assert run(monkeypatch, "doctor", "--help") == 0
    assert "Example: whvi doctor" in capsys.readouterr().out
