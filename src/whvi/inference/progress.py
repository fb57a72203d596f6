"""A progress bar where there is a terminal to show it."""

import sys
from contextlib import AbstractContextManager
from time import perf_counter
from types import TracebackType
from typing import Any


class Progress(AbstractContextManager["Progress"]):
    """How far a run is and what it reports. With rich (the extra ``cli``) a bar, without it a line now and then.

    Args:
        total: steps of the run.
        show: None for "when standard error is a terminal".
        done: steps that were done before, of a run that is resumed.
        rows: of a step, for their number in a second; None where it is not known.
    """

    def __init__(self, total: int, show: bool | None, done: int = 0, rows: int | None = None) -> None:
        self.total, self.first, self.rows = total, done, rows
        self._started = perf_counter()
        self.show = sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._task: Any = None
        self._last = 0

    def __enter__(self) -> "Progress":
        """Draw the bar."""
        if self.show:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
                from rich.progress import Progress as Bar
                from rich.table import Column
            except ModuleNotFoundError:
                return self
            counts = (kind(table_column=Column(no_wrap=True)) for kind in (MofNCompleteColumn, TimeRemainingColumn))
            # In a narrow terminal the report takes a second line, and all numbers stay whole.
            text = TextColumn("{task.fields[report]}", table_column=Column(no_wrap=False))
            self._bar = Bar(BarColumn(20), *counts, text, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("fit", total=self.total, report="")
        return self

    def update(self, done: int, report: str = "") -> None:
        """``done`` steps are done."""
        if report and self.rows is not None:
            report += f"  {(done - self.first) * self.rows / (perf_counter() - self._started):,.0f} rows/s"
        if self._bar is not None:
            fields = {"report": report} if report else {}
            self._bar.update(self._task, completed=done, **fields)
        elif self.show and report and (done - self._last) * 20 >= self.total:
            self._last = done
            print(f"{done}/{self.total} {report}", file=sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
