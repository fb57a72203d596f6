"""A progress bar for terminals."""

import sys
from time import perf_counter
from typing import Any

from whvi.annotations import checked
from whvi.inference.callbacks.base import Callback, Moment


class Progress(Callback):
    """Progress and reports of a run: with rich (the extra ``cli``) a bar, without it occasional lines.

    Args:
        show: None for "when standard error is a terminal".
    """

    @checked
    def __init__(self, show: bool | None = None) -> None:
        self.show = show
        self._bar: Any = None
        self._task: Any = None

    def on_start(self, moment: Moment) -> None:
        """Show the bar."""
        self._shows = sys.stderr.isatty() if self.show is None else self.show
        self._first, self._last, self._started = moment.step, moment.step, perf_counter()
        if self._shows:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
                from rich.progress import Progress as Bar
                from rich.table import Column
            except ModuleNotFoundError:
                return
            counts = (kind(table_column=Column(no_wrap=True)) for kind in (MofNCompleteColumn, TimeRemainingColumn))
            # In a narrow terminal the report takes a second line, and all numbers stay whole.
            text = TextColumn("{task.fields[report]}", table_column=Column(no_wrap=False))
            self._bar = Bar(BarColumn(20), *counts, text, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("fit", total=moment.loop.steps, report="")

    def on_step(self, moment: Moment) -> None:
        """Show the report of a window that ended."""
        if self._shows and moment.history.ends_at(moment.step):
            self._update(moment)

    def on_end(self, moment: Moment) -> None:
        """Show the last report."""
        if self._shows:
            self._update(moment)

    def close(self) -> None:
        """Restore the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _update(self, moment: Moment) -> None:
        done, total, rows = moment.step, moment.loop.steps, moment.loop.batches.rows
        report = "  ".join(f"{name} {value:.4g}" for name, value in moment.history.summary.items())
        if report and rows is not None:
            report += f"  {(done - self._first) * rows / (perf_counter() - self._started):,.0f} rows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, report=report)
        elif report and (done - self._last) * 20 >= total:
            self._last = done
            print(f"{done}/{total} {report}", file=sys.stderr)
