"""``whvi datasets``, called as a user calls it."""

from pathlib import Path

import pytest
import typer
from scripted_server import CONTENT, Server, refused
from typer.testing import CliRunner, Result

from whvi_paper.data import DATASETS, DataError
from whvi_paper.data.commands import add_commands
from whvi_paper.data.dataset import Dataset

NAME = "yacht_hydrodynamics.data"


def run(*arguments: str) -> Result:
    app = typer.Typer()
    add_commands(app)
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, ["datasets", *arguments])


def row(output: str, name: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if line.startswith(f"{name} "))


def test_list_shows_all_and_where_they_are(yacht: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run("list").stdout
    assert [row(output, name)[0] for name in DATASETS] == list(DATASETS)
    assert row(output, "yacht") == ["yacht", "regression", "2", "6", "1", "not", "here"]
    assert row(output, "letter")[2:5] == ["20,000", "16", "26"]
    assert row(output, "robot")[-1] == "generated"
    run("fetch", "yacht")
    assert row(run("list").stdout, "yacht")[-1] == "cache"
    (tmp_path / NAME).write_bytes(CONTENT)
    monkeypatch.setenv("WHVI_DATA", str(tmp_path))
    assert row(run("list").stdout, "yacht")[-1] == "WHVI_DATA"


def test_verbose_list_says_what_is_not_known(cache: Path) -> None:
    output = run("list", "--verbose").stdout
    assert "MiniBooNE_PID.txt: sha256 not known" in output
    assert f"boston.npz: sha256 {DATASETS['boston'].files[0].sha256}" in output
    assert "https://archive.ics.uci.edu/dataset/405/" in output
    assert output.count("  licence: ") == len(DATASETS)


def test_fetch_prints_the_path(yacht: Dataset, cache: Path) -> None:
    done = run("fetch", "yacht")
    assert done.exit_code == 0
    assert done.stdout == f"{cache / NAME}\n"
    assert (cache / NAME).read_bytes() == CONTENT


def test_fetch_leaves_the_error_to_the_program(yacht: Dataset, server: Server, cache: Path) -> None:
    server.answers = [refused(404)]
    assert isinstance(run("fetch", "yacht").exception, DataError)
    assert list(cache.rglob("*")) == []


def test_check_finds_what_is_bad(yacht: Dataset, cache: Path) -> None:
    nothing = run("check")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    run("fetch", "yacht")
    good = run("check")
    assert (good.exit_code, good.stdout) == (0, f"good  yacht: {cache / NAME}\n")
    (cache / NAME).write_bytes(CONTENT[:-1])
    bad = run("check")
    assert bad.exit_code == 1
    assert bad.stdout.startswith(f"bad   yacht: {cache / NAME}: not the published file")
