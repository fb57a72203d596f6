"""Checkpoints of a run."""

from contextlib import ExitStack
from os import PathLike
from typing import ClassVar

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.errors import CheckpointError
from whvi.inference.callbacks.base import Callback, Moment
from whvi.io import checkpoint
from whvi.io.lock import alone
from whvi.nn.fingerprint import of_modules


class Checkpoint(Callback):
    """Save the run in a folder, also at Ctrl-C and at its end. A run that finds its own checkpoint resumes from it.

    Args:
        folder: for this run only; it is created if missing.
        every: steps between two checkpoints; the last two are kept.

    A model resumes if it has the initial weights of the saved run, with frozen ones and buffers (so build it after
    the same ``torch.manual_seed``), or the weights at the end of the earlier call. Any other model raises an error.

    Law: a resumed run ends with bitwise the same result as an uninterrupted one.
    """

    everywhere: ClassVar[bool] = True  # all processes read it, the first one writes

    @checked
    def __init__(self, folder: str | PathLike[str], every: int = 1000) -> None:
        self.folder, self.every = folder, whole_number("every", every)
        self._held = ExitStack()

    def setup(self, moment: Moment) -> None:
        """Lock the folder, and restore its last checkpoint."""
        run, loop = moment.run, moment.loop
        if run.leads:
            self._held.enter_context(alone(self.folder))
        loop.start = of_modules(loop.owners)
        found = checkpoint.latest(self.folder)
        if found is not None:
            loop.restore(found, self.folder)
        moment.step = 0 if found is None else found.step
        steps = run.everyone(moment.step)
        if len(set(steps)) > 1:
            raise CheckpointError(
                f"the processes found checkpoints after {steps} steps in {self.folder}; give a folder that all share"
            )

    def after_step(self, moment: Moment) -> None:
        """Save every so many steps."""
        if moment.step % self.every == 0 or moment.ends:
            moment.loop.check_finite(moment.step)  # so the last checkpoint is always a good one
            if moment.run.leads:
                checkpoint.save(self.folder, moment.step, *moment.loop.state())

    def close(self) -> None:
        """Unlock the folder."""
        self._held.close()
