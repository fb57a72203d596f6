"""A progress bar where there is a terminal to show it."""

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any


class Progress(AbstractContextManager["Progress"]):
    """How far a run is and what it reports. With rich (the extra ``cli``) a bar, without it a line now and then.

    Args:
        total: steps of the run.
        show: None for "when standard error is a terminal".
    """

    def __init__(self, total: int, show: bool | None) -> None:
        self.total = total
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
            except ModuleNotFoundError:
                return self
            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[report]}"))
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("fit", total=self.total, report="")
        return self

    def update(self, done: int, report: str = "") -> None:
        """``done`` steps are done."""
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
