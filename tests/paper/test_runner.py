"""Running jobs: only what is missing, everywhere, and nothing is lost."""

import gc
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from rich.console import Console
from small_jobs import die_after, double, double_after, fail, make, threads

from whvi.errors import ArgumentError, MissingPackageError, UnsupportedError
from whvi_paper import workers
from whvi_paper.bars import Bars
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.runner import Summary, run
from whvi_paper.store import Store, name_of
from whvi_paper.workers import Outcome, WorkItem


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


@pytest.fixture
def go(tmp_path: Path, store: Store) -> Callable[..., Summary]:
    def call(jobs: Sequence[Job], backend: str = "sequential", **more: Any) -> Summary:
        more = {"console": Console(file=io.StringIO()), **more}
        return run(jobs, store, work=tmp_path / "work", backend=backend, processes=2, **more)

    return call


class Asked:
    """A function of jobs that notes what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[list[Inputs]] = []

    def __call__(self, inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
        self.calls.append(list(inputs))
        (folder / "checkpoint").write_text("large")
        return [{"metrics": {"value": one["number"]}} for one in inputs]


def several(function: Any, *numbers: int) -> Job:
    return Job("small", "several", tuple({"number": number} for number in numbers), function)


def test_only_what_is_missing_is_computed(go: Callable[..., Summary], store: Store) -> None:
    asked = Asked()
    assert go([several(asked, 1, 3)]) == Summary(there=0, done=2, failed=0)
    assert go([several(asked, 1, 2, 3, 4), several(asked, 1)]) == Summary(there=3, done=2, failed=0)
    assert asked.calls == [[{"number": 1}, {"number": 3}], [{"number": 2}, {"number": 4}]]
    assert go([several(asked, 1, 2, 3, 4)]) == Summary(there=4, done=0, failed=0)
    assert len(asked.calls) == 2
    values = [record["results"]["metrics"]["value"] for record in store.records([several(asked, 1, 2, 3, 4)])]
    assert values == [1, 2, 3, 4]


def test_no_jobs_are_no_work(go: Callable[..., Summary]) -> None:
    assert go([], "loky") == Summary(0, 0, 0)


def test_long_jobs_are_begun_first(go: Callable[..., Summary]) -> None:
    asked = Asked()
    go([make(asked, number, cost=cost) for number, cost in enumerate([1.0, 3.0, 2.0])])
    assert [call[0]["number"] for call in asked.calls] == [1, 2, 0]


def test_failing_job_leaves_its_reason_and_others_go_on(go: Callable[..., Summary], store: Store) -> None:
    bad, good = make(fail, 0, cost=2.0), make(double, 1)
    assert go([bad, good]) == Summary(there=0, done=1, failed=1)
    assert store.missing(bad) == list(bad.inputs)
    assert store.missing(good) == []
    (line,) = store.failed_path("small").read_text().splitlines()
    failure = json.loads(line)
    assert (failure["name"], failure["status"]) == (name_of(bad.inputs[0]), "failed")
    assert "RuntimeError: as it was meant to" in failure["reason"]
    assert "in fail" in failure["reason"]  # a traceback
    assert go([bad, good]) == Summary(there=1, done=0, failed=1)
    assert store.failures("small")[name_of(bad.inputs[0])] == 2


@pytest.mark.parametrize("results", [[{"metrics": {"rmse": float("nan")}}], [], [{"metrics": {"rmse": torch.ones(1)}}]])
def test_results_that_no_record_can_hold_are_a_failure(go: Callable[..., Summary], results: list[Results]) -> None:
    assert go([make(lambda *_: results, 0), make(double, 1)]) == Summary(there=0, done=1, failed=1)


def test_folder_of_a_job_goes_with_it_and_a_failure_keeps_its_checkpoint(
    go: Callable[..., Summary], tmp_path: Path
) -> None:
    def fail_late(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
        before = [path.name for path in folder.iterdir() if path.name not in ("progress", "times.json")]
        Asked()(inputs, folder, report)
        if before == []:
            raise RuntimeError
        return [{"metrics": {"before": before}} for _ in inputs]

    go([make(Asked(), 0)])
    assert list((tmp_path / "work").iterdir()) == []
    assert go([make(fail_late, 1)]).failed == 1
    assert [path.name for path in (tmp_path / "work").rglob("checkpoint")] == ["checkpoint"]
    assert go([make(fail_late, 1)]).done == 1  # it found its checkpoint
    assert list((tmp_path / "work").iterdir()) == []


def test_interrupt_keeps_what_is_done_and_notes_what_had_begun(go: Callable[..., Summary], store: Store) -> None:
    def interrupted(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
        raise KeyboardInterrupt

    first, second, third = make(double, 0, 3.0), make(interrupted, 1, 2.0), make(double, 2, 1.0)
    with pytest.raises(KeyboardInterrupt):
        go([first, second, third])
    assert store.missing(first) == []
    assert store.failures("small") == {name_of(second.inputs[0]): 1}  # the third had not begun
    assert '"cancelled"' in store.failed_path("small").read_text()
    assert go([first, make(double, 1), third]) == Summary(there=1, done=2, failed=0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_times_of_a_job_that_goes_on_are_those_of_all_its_sessions(
    go: Callable[..., Summary], store: Store, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    now = {"wall": 100.0, "cpu": 50.0}
    clocks = SimpleNamespace(perf_counter=lambda: now["wall"], process_time=lambda: now["cpu"])
    monkeypatch.setattr(workers, "time", clocks)

    def work(wall: float) -> None:
        now["wall"] += wall
        now["cpu"] += wall / 2

    def two_sessions(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
        work(4.0)
        report(0.5)
        if now["wall"] < 1000.0:
            raise error
        return double(inputs, folder, report)

    job = several(two_sessions, 1, 2)
    with suppress(KeyboardInterrupt):
        assert go([job]).failed == 2
    work(1000.0)  # between the sessions
    assert go([job]).done == 2
    assert [(one["wall_seconds"], one["cpu_seconds"]) for one in store.records([job])] == [(4.0, 2.0)] * 2


@pytest.mark.parametrize("more", [{"threads": 2}, {}])  # the last has the processes of the tests that follow
@pytest.mark.parametrize("backend", ["sequential", "loky"])
def test_a_job_has_its_threads_and_the_caller_keeps_his(
    go: Callable[..., Summary], store: Store, backend: str, more: dict[str, int]
) -> None:
    jobs, before = [make(threads, 0), make(threads, 1)], torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        go(jobs, backend, **more)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    found = [record["results"]["metrics"]["threads"] for record in store.records(jobs)]
    assert found == [more.get("threads", 1)] * 2


def test_threads_fill_the_processors(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("whvi_paper.runner.cpu_count", lambda: 8)
    monkeypatch.setattr("whvi_paper.runner.outcomes", lambda *call: asked.append(call[2]) or iter(()))
    monkeypatch.setattr("whvi_paper.runner.closing", nullcontext)
    for count in (1, 3, 16):
        run([], store, work=tmp_path, threads=count, console=Console(file=io.StringIO()))
    assert asked == [8, 2, 1]


def check_cluster(go: Callable[..., Summary], store: Store, backend: str) -> None:
    """Jobs run in other processes, a failure is a record, and a record is kept while others are computed."""
    first = make(double, 0, cost=3.0)
    kept = {"file": str(store.path("small")), "text": name_of(first.inputs[0])}
    jobs = [first, make(double_after, 1, cost=2.0, **kept), make(fail, 2)]
    assert go(jobs, backend) == Summary(there=0, done=2, failed=1)
    metrics = [record["results"]["metrics"] for record in store.records(jobs)]
    assert [one["double"] for one in metrics] == [0, 2]
    assert os.getpid() not in {one["process"] for one in metrics}


def test_processes_of_this_machine_and_one_that_is_killed(go: Callable[..., Summary], store: Store) -> None:
    check_cluster(go, store, "loky")
    quick = make(double, 3)
    killed = make(die_after, 4, file=str(store.path("small")), text=name_of(quick.inputs[0]))
    assert go([quick, killed], "loky") == Summary(there=0, done=1, failed=1)
    last = json.loads(store.failed_path("small").read_text().splitlines()[-1])
    assert last["name"] == name_of(killed.inputs[0])
    assert "was there enough memory?" in last["reason"]


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_ray(go: Callable[..., Summary], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray puts a key to its cluster
    paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # Ray does not pass sys.path on
    reason = None
    try:
        check_cluster(go, store, "ray")
    except UnsupportedError as error:
        reason = str(error)
    if reason is not None:
        gc.collect()  # Ray leaves its processes to the garbage, and Python warns of that
        pytest.skip(reason)


def test_cluster_that_does_not_start_is_told_in_one_line(
    go: Callable[..., Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")

    def init(**_: Any) -> None:
        raise Exception("timed out\nand so on")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(UnsupportedError, match=r"Ray did not start \(timed out\); try again"):
        go([make(double, 0)], "ray")


def test_dask(go: Callable[..., Summary], store: Store) -> None:
    pytest.importorskip("distributed")
    check_cluster(go, store, "dask")


def test_other_jobs_survive_the_death_of_a_process_and_those_at_work_run_again_alone(
    go: Callable[..., Summary], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        """Of the first calls it makes one and begins two, then it breaks; job 1 breaks it whenever it begins."""

        asked: ClassVar[list[list[int]]] = []

        def __init__(self, **_: Any) -> None:
            pass

        def __call__(self, calls: list[Any]) -> Any:
            tasks = [task for _, (task, _), _ in calls]
            self.asked.append([task.inputs[0]["number"] for task in tasks])
            if 1 not in self.asked[-1]:
                yield from map(workers.execute, tasks)
                return
            if len(tasks) > 1:
                yield workers.execute(tasks.pop(0))
            for task in tasks[:2]:
                task.folder.mkdir(parents=True, exist_ok=True)
                task.progress.write_text("0.5")
            raise BrokenProcessPool("a process died")

    monkeypatch.setattr(workers, "Parallel", Broken)
    jobs = [make(double, number, cost=-number) for number in range(4)]
    assert go(jobs, "loky") == Summary(there=0, done=3, failed=1)
    assert Broken.asked == [[0, 1, 2, 3], [3], [1], [2]]
    assert store.missing(jobs[1]) == list(jobs[1].inputs)
    assert store.failures("small") == {name_of(jobs[1].inputs[0]): 1}


def test_unknown_backend_and_missing_package_are_told_before_work(
    go: Callable[..., Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked()
    with pytest.raises(ArgumentError, match="'slurm' is unknown; use one of: loky, sequential, ray, dask"):
        go([make(asked, 0)], "slurm")
    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    for backend in ("ray", "dask"):
        with pytest.raises(MissingPackageError, match=r"pip install 'whvi\[distributed\]'"):
            go([make(asked, 0)], backend)
    assert asked.calls == []


def test_without_a_terminal_there_is_a_line_for_each_job(go: Callable[..., Summary]) -> None:
    console = Console(file=io.StringIO())
    go([make(double, 0, cost=2.0), make(fail, 1)], console=console)
    first, second = console.file.getvalue().splitlines()
    assert re.fullmatch(r"job 0: \d+\.\d s", first)
    assert second == "job 1: failed: RuntimeError: as it was meant to"


def test_bars_show_the_jobs_at_work(tmp_path: Path) -> None:
    def drawn() -> list[str]:
        plain = Console(file=io.StringIO(), width=80)
        plain.print(*bars.get_renderables())
        return [re.sub(r" {2,}|━+", " ", line[2:]) for line in plain.file.getvalue().splitlines()]

    tasks = [WorkItem(index, make(double, index), ({"number": index},), tmp_path / str(index)) for index in range(3)]
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Bars(tasks, console) as bars:
        for task, share in zip(tasks[:2], ("0.2500", ""), strict=True):  # the second is in the middle of a write
            task.folder.mkdir()
            task.progress.write_text(share)
        assert [line.split()[:3] for line in drawn()] == [["3", "jobs", "0%"], ["job", "0", "25%"]]
        bars.finish(Outcome(0, wall=1.25))
        tasks[1].progress.write_text("0.5000")
        assert [line.split()[:3] for line in drawn()] == [["3", "jobs", "33%"], ["job", "1", "50%"]]
    shown = console.file.getvalue()
    assert "job 0: 1.2 s\n" in shown
    assert shown.rstrip("\r\n").endswith("\x1b[2K")  # the bars are gone
