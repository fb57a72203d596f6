"""Run jobs in parallel processes, and keep their records as they come."""

import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from joblib import cpu_count
from rich.console import Console

from whvi_paper.bars import Bars
from whvi_paper.jobs import Job
from whvi_paper.store import Store, name_of
from whvi_paper.workers import BACKENDS, Outcome, WorkItem, check_backend, outcomes

__all__ = ["BACKENDS", "Summary", "run"]


@dataclass(frozen=True)
class Summary:
    """What a run did, in records."""

    there: int
    """Were there before."""
    done: int
    failed: int

    def __str__(self) -> str:
        return f"{self.done} computed, {self.there} were there, {self.failed} failed"


def run(
    jobs: Sequence[Job],
    store: Store,
    *,
    work: Path,
    processes: int | None = None,
    threads: int = 1,
    backend: str = "loky",
    console: Console | None = None,
) -> Summary:
    """Compute the records of jobs that are not in the store.

    Args:
        jobs: long ones are begun first.
        store: takes each record as soon as its job is done.
        work: a folder for checkpoints; a job that was interrupted resumes from there. Workers on other machines must
            see it too. What a job left there is removed once its records are kept.
        processes: at once; default as many as fill the processors that this process may use.
        threads: of each process. What is small, as the networks of the paper's regression are, is fastest on one.
        backend: one of ``BACKENDS``. A cluster is found as Ray and Dask find theirs (``RAY_ADDRESS``,
            ``DASK_SCHEDULER_ADDRESS``), or started on this machine with so many processes.
        console: where bars and lines go; default standard error.

    Law: after Ctrl-C or a kill nothing is lost but the jobs in flight, and these resume from their checkpoints, where
    they have any.
    """
    check_backend(backend)
    tasks = plan(jobs, store, work, threads)
    total, missing = sum(len(job.inputs) for job in jobs), sum(len(task.inputs) for task in tasks)
    counts: Counter[str] = Counter()
    at_work = dict(enumerate(tasks))
    processes = processes or max(1, cpu_count() // threads)
    with closing(outcomes(tasks, backend, processes)) as found, Bars(tasks, console) as bars:
        try:
            for outcome in found:
                task = at_work.pop(outcome.index)
                counts[keep(store, task, outcome)] += len(task.inputs)
                bars.finish(outcome)
        except KeyboardInterrupt:
            for task in at_work.values():
                if task.progress.exists():  # it had begun
                    store.keep_failure(task.job, task.inputs, "cancelled", "interrupted")
            raise
    return Summary(total - missing, counts["done"], counts["failed"])


def plan(jobs: Sequence[Job], store: Store, work: Path, threads: int = 1) -> list[WorkItem]:
    """What is missing, long jobs first. A folder is named by what is computed in it."""
    missing = [(job, store.missing(job)) for job in sorted(jobs, key=lambda job: -job.cost)]
    return [
        WorkItem(
            index, job, tuple(inputs), work.absolute() / name_of({"job": [name_of(one) for one in inputs]}), threads
        )
        for index, (job, inputs) in enumerate((job, inputs) for job, inputs in missing if inputs)
    ]


def keep(store: Store, task: WorkItem, outcome: Outcome) -> str:
    """Write what became of a task: "done", and its folder is removed; or "failed", and its checkpoint stays."""
    if outcome.error is not None:
        store.keep_failure(task.job, task.inputs, "failed", outcome.error)
        return "failed"
    store.keep(task.job, task.inputs, outcome.results, outcome.wall, outcome.cpu)
    shutil.rmtree(task.folder, ignore_errors=True)  # checkpoints are large; what cannot be removed does no harm
    return "done"
