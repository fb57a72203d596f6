"""Scalars for TensorBoard, behind the extra ``tensorboard``."""

from contextlib import AbstractContextManager
from os import PathLike
from types import TracebackType
from typing import Any

from whvi.errors import MissingPackageError


class Scalars(AbstractContextManager["Scalars"]):
    """Writes the numbers of a run to a folder that TensorBoard shows; without a folder it writes nothing."""

    def __init__(self, folder: str | PathLike[str] | None, done: int = 0) -> None:
        self.folder, self.done = folder, done
        self._writer: Any = None

    def __enter__(self) -> "Scalars":
        """Open the folder."""
        if self.folder is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ModuleNotFoundError:
                raise MissingPackageError("log_dir needs TensorBoard: pip install 'whvi[tensorboard]'") from None
            # What an interrupted run wrote after its last checkpoint is written again.
            self._writer = SummaryWriter(str(self.folder), purge_step=self.done + 1 if self.done else None)
        return self

    def add(self, values: dict[str, float], step: int) -> None:
        """Numbers after a step."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()
