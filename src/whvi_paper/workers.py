"""Where jobs run: in this process, in others of this machine, or on the workers of a Ray or Dask cluster.

joblib runs the processes of this machine. When one of them is killed it stops them all, so each job that was at work
is run once more, alone; one whose process is killed again has failed. Ray and Dask are asked directly: each gives back
every result as it comes, and where a worker is lost, that job's alone.
"""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from joblib import Parallel, delayed, parallel_config

from whvi.errors import ArgumentError, MissingPackageError, UnsupportedError
from whvi.io import atomic, canonical
from whvi_paper.jobs import Inputs, Job, Results
from whvi_paper.measured import threads
from whvi_paper.store import check_results

TIMES = "times.json"
"""Of a task, in its folder: the file of its ``Clock``."""


@dataclass(frozen=True)
class WorkItem:
    """What is missing of a job, and the folder it is computed in."""

    index: int
    job: Job
    inputs: tuple[Inputs, ...]
    folder: Path
    threads: int = 1

    @property
    def progress(self) -> Path:
        """Holds the share of the work that is done; is there once the work has begun."""
        return self.folder / "progress"


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its results, or why there are none."""

    index: int
    results: Sequence[Results] = ()
    wall: float = 0.0
    """Seconds, as ``cpu``; of all sessions that the task took."""
    cpu: float = 0.0
    error: str | None = None


def execute(task: WorkItem) -> Outcome:
    """One job, on its threads. An error is an outcome, so that the other jobs go on."""

    def report(share: float) -> None:
        task.progress.write_text(f"{share:.4f}")
        clock.keep()

    with _one_at_a_time, threads(task.threads):
        try:
            task.folder.mkdir(parents=True, exist_ok=True)
            clock = Clock(task.folder / TIMES)
            report(0.0)
            results = task.job.function(task.inputs, task.folder, report)
            check_results(results, len(task.inputs))
        except Exception:
            return Outcome(task.index, error=traceback.format_exc())
        return Outcome(task.index, results, *clock.spent())


class Clock:
    """Wall and CPU time of a task. In a file, so that a task that goes on counts its earlier sessions too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        wall, cpu = canonical.parse(path.read_bytes()) if path.exists() else (0.0, 0.0)
        self._start = time.perf_counter() - wall, time.process_time() - cpu

    def spent(self) -> tuple[float, float]:
        """Seconds up to now, wall and CPU."""
        return time.perf_counter() - self._start[0], time.process_time() - self._start[1]

    def keep(self) -> None:
        """Write down what was spent; what comes after that is lost if the process is killed."""
        atomic.write_json(self._path, self.spent())


_one_at_a_time = Lock()
"""torch has one generator for all threads of a process, and a Dask worker may have several threads."""

Outcomes = Generator[Outcome, None, None]


def _sequential(tasks: Sequence[WorkItem], processes: int) -> Outcomes:
    yield from map(execute, tasks)


def _loky(tasks: Sequence[WorkItem], processes: int) -> Outcomes:
    if processes == 1:  # joblib would not start a process either
        yield from _sequential(tasks, processes)
        return
    waiting, again = list(tasks), list[WorkItem]()
    while waiting or again:
        alone = not waiting
        left = {task.index: task for task in waiting or [again.pop(0)]}
        calls = [delayed(_execute_in_child)(task, os.getpid()) for task in left.values()]
        with parallel_config("loky", n_jobs=processes, inner_max_num_threads=tasks[0].threads):
            found = Parallel(return_as="generator_unordered", pre_dispatch="all", batch_size=1)(calls)
        try:
            for outcome in found:
                del left[outcome.index]
                yield outcome
        except BrokenProcessPool as error:  # someone killed a process, and joblib then stops them all
            lost = [task for task in left.values() if task.progress.exists()]
            if not lost:
                raise
            for task in lost:
                del left[task.index]
                task.progress.unlink()
                if alone:  # and again: it was this one
                    yield Outcome(task.index, error=f"{error}\na process was killed; was there enough memory?")
                else:
                    again.append(task)
        finally:
            with warnings.catch_warnings(action="ignore"):  # that tasks were stopped, as intended
                found.close()
        waiting = list(left.values())


def _execute_in_child(task: WorkItem, parent: int) -> Outcome:
    _belong_to(parent)
    return execute(task)


@cache
def _belong_to(parent: int) -> None:
    """Leave Ctrl-C to the parent, and do not outlive it: it may be started again, and compute the same."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _ray(tasks: Sequence[WorkItem], processes: int) -> Outcomes:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    started, threads_each = not ray.is_initialized(), tasks[0].threads if tasks else 1
    if started:
        mine = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": processes * threads_each, "include_dashboard": False}
        try:
            ray.init(log_to_driver=False, logging_level="error", **mine)
        except Exception as error:  # Ray has no class of its own for it, and waits 15 seconds for its parts, no longer
            advice = "try again when the machine is less busy, or use another backend"
            raise UnsupportedError(f"Ray did not start ({str(error).splitlines()[0]}); {advice}") from error
    try:
        call = ray.remote(max_retries=0, num_cpus=threads_each)(execute).remote
        waiting = {call(task): task.index for task in tasks}
        while waiting:
            (ready,), _ = ray.wait(list(waiting))
            index = waiting.pop(ready)
            try:
                yield ray.get(ready)
            except ray.exceptions.RayError as error:
                yield Outcome(index, error=f"{error}\nRay could not run it, or lost its worker")
    finally:
        if started:
            ray.shutdown()


def _dask(tasks: Sequence[WorkItem], processes: int) -> Outcomes:
    from distributed import Client, as_completed

    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    local: dict[str, Any] = {"n_workers": processes, "threads_per_worker": 1, "dashboard_address": None}
    with Client(address) if address else Client(**local) as client:
        waiting = {client.submit(execute, task, pure=False): task.index for task in tasks}
        for future in as_completed(waiting):
            error = future.exception()
            if error is None:
                yield future.result()
            else:
                yield Outcome(waiting[future], error=f"{error}\nDask could not run it, or lost its worker")


_BACKENDS: Mapping[str, Callable[[Sequence[WorkItem], int], Outcomes]] = {
    "loky": _loky, "sequential": _sequential, "ray": _ray, "dask": _dask
}  # fmt: skip
BACKENDS = tuple(_BACKENDS)
"""Processes of this machine; this process; or the workers of a Ray or Dask cluster, on one machine or many."""


def check_backend(backend: str) -> None:
    """Refuse a backend that there is not, or whose package is not installed."""
    if backend not in _BACKENDS:
        raise ArgumentError(f"backend {backend!r} is unknown; use one of: {', '.join(BACKENDS)}")
    if backend in ("ray", "dask") and find_spec("ray" if backend == "ray" else "distributed") is None:
        raise MissingPackageError(f"the backend {backend} needs its extra: pip install 'whvi[distributed]'")


def outcomes(tasks: Iterable[WorkItem], backend: str, processes: int) -> Outcomes:
    """The outcomes of tasks, as they come; those that come first in ``tasks`` are begun first.

    Close the generator, and the tasks at work are stopped.
    """
    check_backend(backend)
    tasks = list(tasks)
    for task in tasks:
        task.progress.unlink(missing_ok=True)  # which an earlier run may have left
    return _BACKENDS[backend](tasks, min(processes, max(len(tasks), 1)))
