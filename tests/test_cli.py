"""The command line, called as a user calls it."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import whvi
from whvi import cli


class Terminal:
    """Runs ``whvi ...`` in this process and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        for name, value in {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}.items():
            monkeypatch.setenv(name, value)

    def __call__(self, *arguments: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["whvi", *arguments])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        self.out, self.err = self.capsys.readouterr()
        return int(leaving.value.code or 0)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(monkeypatch, capsys)


def test_doctor_tells_what_runs(terminal: Terminal) -> None:
    info = whvi.kernel_info()
    assert terminal("doctor") == (0 if info.backend == "native" else 1)
    for fact in (whvi.__version__, info.backend, info.torch):
        assert fact in terminal.out
    assert ("does NOT run" in terminal.out) == (info.backend == "fallback")


def test_doctor_is_loud_about_the_fallback(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    info = dataclasses.replace(whvi.kernel_info(), backend="fallback", isa=None, reason="no [compiler] was found")
    monkeypatch.setattr(whvi, "kernel_info", lambda: info)
    assert terminal("doctor") == 1
    assert "does NOT run" in terminal.out
    assert "Reason: no [compiler] was found" in terminal.out
    assert "--no-build-isolation" in terminal.out


def test_installed_command_is_the_same() -> None:
    command = Path(sys.executable).with_name("whvi")
    if not command.exists():
        pytest.skip("whvi is not installed beside this interpreter")
    done = subprocess.run([command, "doctor"], capture_output=True, text=True)
    assert done.returncode == (0 if whvi.kernel_info().backend == "native" else 1)
    assert whvi.__version__ in done.stdout


@pytest.mark.parametrize("command", ["doctor", "bench", "demo"])
def test_help_has_an_example(terminal: Terminal, command: str) -> None:
    assert terminal(command, "--help") == 0
    assert f"Example: whvi {command}" in terminal.out


@pytest.mark.parametrize("arguments", [["nonsense"], ["bench", "--nonsense"], ["doctor", "nonsense"]])
def test_mistake_in_the_call_gives_exit_code_2(terminal: Terminal, arguments: list[str]) -> None:
    assert terminal(*arguments) == 2
    assert "nonsense" in terminal.err


@pytest.mark.parametrize("command", ["bench", "demo"])
def test_output_that_cannot_be_written_gives_one_line(terminal: Terminal, tmp_path: Path, command: str) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert terminal(command, "--out", str(blocker / "inside")) == 2
    assert terminal.err.startswith("whvi: ")
    assert terminal.err.count("\n") == 1


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_missing_extra_says_how_to_install_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert terminal("doctor") == 2
    assert terminal.err == "whvi: the command line needs its extra, install it with: pip install 'whvi[cli]'\n"


def test_help_starts_with_tables(terminal: Terminal) -> None:
    assert terminal("--help") == 0
    headings = [terminal.out.index(f" {heading} ") for heading in cli.HEADINGS]
    assert headings == sorted(headings)


def test_every_output_has_one_spelling() -> None:
    """``-o`` and ``--out`` wherever a command writes something."""
    commands = [get_command(cli.build_app())]
    written = []
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        written += [parameter.opts for parameter in command.params if parameter.name == "out"]
    assert len(written) >= 7
    assert all(sorted(opts) == ["--out", "-o"] for opts in written)


def test_shells_complete_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"_WHVI_COMPLETE": "complete_bash", "COMP_WORDS": "whvi pre", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as leaving:
        cli.build_app()(prog_name="whvi")
    assert (leaving.value.code, capsys.readouterr().out.split()) == (0, ["predict"])
