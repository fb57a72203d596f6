"""Scalars for TensorBoard, behind the extra ``tensorboard``."""

from math import isnan
from os import PathLike
from statistics import fmean
from typing import Any

from whvi.annotations import checked
from whvi.errors import MissingPackageError
from whvi.inference.callbacks.base import Callback, Moment


class TensorBoard(Callback):
    """Write the history of a run to a folder for TensorBoard.

    Args:
        folder: of this run.
    """

    @checked
    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = folder
        self._writer: Any = None

    def on_start(self, moment: Moment) -> None:
        """Open the folder."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError:
            raise MissingPackageError("TensorBoard(folder) needs it: pip install 'whvi[tensorboard]'") from None
        # What an interrupted run wrote after its last checkpoint is written again.
        self._writer = SummaryWriter(str(self.folder), purge_step=moment.step + 1 if moment.step else None)
        self._written = moment.step
        self._looks = len(moment.history.validation)

    def on_step(self, moment: Moment) -> None:
        """Write new entries."""
        history = moment.history
        if history.ends_at(moment.step):
            self._write(moment.step, history.summary)
        for step, value in history.validation[self._looks :]:
            going = [one for one in value if not isnan(one)] if isinstance(value, list) else [value]
            self._writer.add_scalar("validation mnll", fmean(going), step)
        self._looks = len(history.validation)

    def on_end(self, moment: Moment) -> None:
        """Write the last window, which may be shorter."""
        if self._written < moment.step:
            self._write(moment.step, moment.history.summary)

    def close(self) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, step: int, values: dict[str, float]) -> None:
        self._written = step
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
