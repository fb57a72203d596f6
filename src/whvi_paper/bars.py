"""Progress in the terminal: a bar for all jobs, one for each at work, and a line for each that is done."""

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)  # fmt: skip

from whvi_paper.workers import Outcome, WorkItem


class Bars(Progress):
    """Bars from what workers write in their folders; without a terminal there are only the lines."""

    def __init__(self, tasks: Sequence[WorkItem], console: Console | None = None) -> None:
        columns = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        )  # fmt: skip
        self._waiting: dict[int, tuple[WorkItem, TaskID]] = {}  # before rich draws for the first time
        super().__init__(*columns, console=console or Console(stderr=True), transient=True, refresh_per_second=2)
        self._whole = self.add_task(f"{len(tasks)} jobs", total=len(tasks), visible=bool(tasks))
        for task in tasks:
            bar = self.add_task(task.job.label, total=1.0, visible=False, start=False)
            self._waiting[task.index] = (task, bar)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Rich calls this when it draws: the time to look how far the tasks are."""
        for task, bar in list(self._waiting.values()):
            try:
                share = float(task.progress.read_text())
            except (FileNotFoundError, ValueError):  # not begun, or in the middle of a write
                continue
            self.start_task(bar)
            self.update(bar, completed=share, visible=True)
        yield from super().get_renderables()

    def stop(self) -> None:
        """Take the bars away; without a terminal rich itself would end with an empty line."""
        self.live.stop()

    def finish(self, outcome: Outcome) -> None:
        """Say that a task is done, and take its bar away."""
        task, bar = self._waiting.pop(outcome.index)
        self.remove_task(bar)
        self.advance(self._whole)
        state = f"{outcome.wall:.1f} s" if outcome.error is None else f"failed: {outcome.error.splitlines()[-1]}"
        self.console.print(f"{task.job.label}: {state}", markup=False, highlight=False, soft_wrap=True)
