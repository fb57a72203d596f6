"""``whvi reproduce``, called as a user calls it, and stopped as a user stops it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_jobs
import typer
from small_jobs import GATE, NAME, PATIENCE, wait_for

from whvi import cli
from whvi.errors import ArgumentError, MissingPackageError
from whvi_paper import data
from whvi_paper.cli import add_commands, chosen, explained
from whvi_paper.data import DataError
from whvi_paper.exhibits import EXHIBITS, show
from whvi_paper.jobs import Job
from whvi_paper.store import Store

HERE = Path(__file__).parent


class Terminal:
    """Runs ``whvi reproduce ...`` in this process and in its own folder, and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["whvi", "reproduce", *arguments])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        self.out, self.err = self.capsys.readouterr()
        return int(leaving.value.code or 0)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXHIBITS, NAME, small_jobs.EXHIBIT)
    monkeypatch.setenv(GATE, str(tmp_path))  # which is open
    return Terminal(monkeypatch, capsys)


SEQUENTIAL = ("--backend", "sequential")
RECORDS = Path("out/paper/records")


def use(monkeypatch: pytest.MonkeyPatch, *jobs: Job) -> None:
    monkeypatch.setattr(small_jobs.EXHIBIT, "jobs", lambda profile: list(jobs))


def test_alone_it_lists_the_exhibits(terminal: Terminal) -> None:
    assert terminal() == 0
    assert [line.split()[0] for line in terminal.out.splitlines()] == list(EXHIBITS)
    assert "Small jobs (no paper)" in terminal.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tabel"], "exhibit 'tabel' is unknown; use one of: "),
        ([NAME, "--profile", "long"], "profile 'long' is unknown; use one of: recipe, paper, quick, smoke"),
        ([NAME, "--backend", "slurm"], "backend 'slurm' is unknown; use one of: loky, sequential, ray, dask"),
        ([NAME, "--only", "job", "--only", "9"], "no job has all words job 9; words of jobs are: job 0 1 2 3"),
    ],
)
def test_mistake_is_told_in_one_line(terminal: Terminal, arguments: list[str], words: str) -> None:
    assert terminal(*arguments) == 2
    assert terminal.err.startswith(f"whvi: {words}")
    assert terminal.err.count("\n") == 1
    assert not any(Path().iterdir())


def test_it_computes_what_is_asked_for_and_then_nothing(terminal: Terminal) -> None:
    assert terminal(NAME, "--only", "job", "--only", "2", *SEQUENTIAL) == 0
    assert "small: 1 computed, 0 were there, 0 failed" in terminal.out
    assert "page: out/paper/small.html" in terminal.out
    assert re.fullmatch(r"job 2: \d+\.\d s\n", terminal.err)
    assert terminal(NAME, *SEQUENTIAL) == 0
    assert "small: 3 computed, 1 were there, 0 failed" in terminal.out
    assert terminal(NAME, *SEQUENTIAL) == 0
    assert "small: 0 computed, 4 were there, 0 failed" in terminal.out
    assert terminal.err == ""
    assert "4 records" in Path("out/paper/small.html").read_text()


def test_only_complete_runs_are_written_where_the_published_records_are(terminal: Terminal) -> None:
    def records(folder: str) -> int:
        return len(Store(Path(folder)).path(NAME).read_text().splitlines())

    assert terminal(NAME, "--out", "there", *SEQUENTIAL) == 0
    assert (records("there/records"), Path("results").exists()) == (4, False)
    assert terminal(NAME, "--profile", "recipe", "--only", "0", *SEQUENTIAL) == 0
    assert (records("results"), Path("out/paper/records").exists()) == (1, False)
    assert terminal(NAME, "--profile", "recipe", "--results", "mine", *SEQUENTIAL) == 0
    assert (records("results"), records("mine")) == (1, 4)


def test_only_takes_whole_words_and_names_of_several() -> None:
    labels = ["whvi drive 2x64", "S_opt H G H drive 2x64", "S_opt H G H S_opt H drive 2x64"]
    jobs = [Job(NAME, label, ({"number": 0},), small_jobs.double) for label in labels]
    for words, expected in (
        (["S_opt H G H"], labels[1:]),
        (["S_opt H G H S_opt H", "drive"], labels[2:]),
        (["S_opt H G H drive"], labels[1:2]),
        (["whvi", "2x64"], labels[:1]),
        (["2x64"], labels),
        ([], labels),
    ):
        assert [job.label for job in chosen(jobs, words)] == expected
    for words in (["drive 2x6"], ["whv"], ["whvi", "S_opt"]):
        with pytest.raises(ArgumentError, match="no job has all words"):
            chosen(jobs, words)


def test_without_its_extra_it_says_how_to_install_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "whvi_paper.runner")
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert terminal(NAME) == 2
    assert terminal.err == "whvi: this command needs joblib, install it with: pip install 'whvi[paper]'\n"


def test_failures_are_counted_also_where_no_record_is(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = small_jobs.make(small_jobs.fail, 0)
    use(monkeypatch, bad, small_jobs.make(small_jobs.double, 1))
    for _ in range(2):
        assert terminal(NAME, *SEQUENTIAL) == 1
    shown = show(NAME, Store(RECORDS), "quick")
    assert (shown.missing, shown.failed) == (1, 2)
    Store(RECORDS).keep(bad, bad.inputs, [{"metrics": {}}], wall=0.0, cpu=0.0)
    shown = show(NAME, Store(RECORDS), "quick")
    assert (shown.missing, shown.failed) == (0, 2)


def test_failure_is_bad_news(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, small_jobs.make(small_jobs.fail, 0), small_jobs.make(small_jobs.double, 1))
    assert terminal(NAME, *SEQUENTIAL) == 1
    assert "small: 1 computed, 0 were there, 1 failed" in terminal.out
    assert "why they failed: out/paper/records/failed/small.jsonl" in terminal.err
    assert len(Store(RECORDS).failed_path(NAME).read_text().splitlines()) == 1


def test_damaged_record_stops_it_before_work(terminal: Terminal) -> None:
    terminal(NAME, "--only", "0", *SEQUENTIAL)
    (record,) = RECORDS.rglob("*.jsonl")
    record.write_text("{")
    assert terminal(NAME, *SEQUENTIAL) == 2
    assert terminal.err.count("\n") == 1
    assert f"line 1 of {record} is not a record" in terminal.err
    assert (list(RECORDS.rglob("*.jsonl")), record.read_text()) == ([record], "{")
    record.unlink()
    assert terminal(NAME, *SEQUENTIAL) == 0


def test_absent_data_are_left_out_with_the_reason(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        if name == "absent":
            raise DataError("it is nowhere")

    monkeypatch.setattr(data, "load", load)
    absent = small_jobs.make(small_jobs.double, 0, dataset="absent")
    use(monkeypatch, absent)
    assert terminal(NAME, *SEQUENTIAL) == 2
    assert terminal.err.splitlines()[0] == "absent is skipped: it is nowhere"
    assert "no job has data" in terminal.err
    use(
        monkeypatch,
        absent,
        small_jobs.make(small_jobs.double, 1, dataset="here"),
        small_jobs.make(small_jobs.double, 2),
    )
    assert terminal(NAME, *SEQUENTIAL) == 0
    assert "small: 2 computed, 0 were there, 0 failed" in terminal.out
    assert "absent is skipped: it is nowhere" in terminal.err
    Store(RECORDS).keep(absent, absent.inputs, [{"metrics": {}}], wall=0.0, cpu=0.0)
    assert terminal(NAME, *SEQUENTIAL) == 0  # what is done needs no data
    assert "small: 0 computed, 3 were there, 0 failed" in terminal.out
    assert terminal.err == ""


class Session:
    """``whvi reproduce small`` in a process group of its own, as a terminal starts it."""

    def __init__(self) -> None:
        environment = {**os.environ, GATE: "closed", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        command = [sys.executable, "-c", "import small_jobs; small_jobs.main()", "reproduce", NAME, "--processes", "2"]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def workers(self) -> set[int]:
        """The processes that wait at the gate, as soon as there are two."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            found = [path.read_text() for path in Path("out/paper/work").glob("*/process")]
            if len(found) == 2 and all(found):
                return {int(text) for text in found}
            time.sleep(0.05)
        pytest.fail(f"it did not come to work: {self.process.stderr.read()}")

    def end(self, number: signal.Signals, everyone: bool) -> tuple[int, str]:
        """Send a signal to the process, or to all of its group; its exit code and standard error."""
        (os.killpg if everyone else os.kill)(self.process.pid, number)
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err


def alive(process: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        os.kill(process, 0)
        return not re.search(r"\) Z ", Path(f"/proc/{process}/stat").read_text())
    except (ProcessLookupError, FileNotFoundError):
        return False


def assert_gone(workers: set[int]) -> None:
    end = time.monotonic() + 30
    while any(map(alive, workers)):
        assert time.monotonic() < end, "processes are left"
        time.sleep(0.05)


def test_after_ctrl_c_and_a_kill_the_same_command_goes_on(terminal: Terminal) -> None:
    store, jobs = Store(RECORDS), small_jobs.jobs("quick")
    session = Session()
    workers = session.workers()
    wait_for(store.path(NAME))
    code, err = session.end(signal.SIGINT, everyone=True)
    assert code == 130
    assert re.fullmatch(r"job 0: .* s\ninterrupted; finished work is kept, and the same command resumes\n", err)
    assert_gone(workers)
    assert [bool(store.missing(job)) for job in jobs] == [False, True, True, True]
    cancelled = store.failed_path(NAME).read_text().splitlines()
    assert len(cancelled) == 2
    assert all('"status": "cancelled"' in text for text in cancelled)

    for mark in Path("out/paper/work").glob("*/process"):
        mark.unlink()
    session = Session()
    workers = session.workers()
    code, err = session.end(signal.SIGKILL, everyone=False)
    assert code == -signal.SIGKILL
    assert_gone(workers)  # they do not outlive it
    assert [bool(store.missing(job)) for job in jobs] == [False, True, True, True]

    assert terminal(NAME, *SEQUENTIAL) == 0  # and the gate is open
    assert "small: 3 computed, 1 were there, 0 failed" in terminal.out
    assert not any(Path("out/paper/work").iterdir())


def test_each_command_says_what_it_lacks() -> None:
    """Also those of groups; a mistake of ours stays one."""
    app = typer.Typer()
    add_commands(app)
    groups = [app, *(info.typer_instance for info in app.registered_groups if info.typer_instance)]
    callbacks = [info.callback for group in groups for info in group.registered_commands]
    assert len(groups) == 2
    assert len(callbacks) > 5
    assert all(hasattr(callback, "__wrapped__") for callback in callbacks)

    def fail(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    with pytest.raises(MissingPackageError, match=r"needs pooch, install it with: pip install 'whvi\[paper\]'"):
        explained(fail)("pooch")
    with pytest.raises(ModuleNotFoundError) as caught:
        explained(fail)("whvi_paper.nothing")
    assert not isinstance(caught.value, MissingPackageError)
