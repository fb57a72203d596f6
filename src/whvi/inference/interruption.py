"""Ctrl-C that waits for the end of a step, so that saved states are consistent."""

import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any


class Interruption(AbstractContextManager["Interruption"]):
    """In its block the first Ctrl-C only sets ``requested``; a second one interrupts at once, as usual.

    Args:
        patient: also ignore the second one: torchrun forwards a signal that the terminal has already sent.
    """

    def __init__(self, patient: bool = False) -> None:
        self.patient, self.requested = patient, False

    def __enter__(self) -> "Interruption":
        """Install the signal handler, if this is the main thread."""
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the signal handler."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and not self.patient:
            raise KeyboardInterrupt
        self.requested = True
