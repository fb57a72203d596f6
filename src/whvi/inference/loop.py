"""The loop of all fits: steps and callbacks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import nn

from whvi.arguments import whole_number
from whvi.errors import DivergenceError
from whvi.inference.batches import Batches
from whvi.inference.callbacks.base import Callback, Moment
from whvi.inference.callbacks.history import REMEDY
from whvi.inference.interruption import Interruption
from whvi.inference.resuming import Resumable
from whvi.inference.seeds import mix, start_generators


@dataclass(kw_only=True)
class Loop(Resumable):
    """A run from its first step, or from a restored step, to its end.

    A step depends on nothing but the tensors it starts from, its number and the seed: the rows of its batch and all
    noise are functions of these. So ``state`` is enough to resume bit for bit.
    """

    batches: Batches
    seed: int
    noise: Callable[[], Any]
    """Of the likelihood, or of each replica's: what a history keeps."""

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        super().__post_init__()

    def go(self) -> float:
        """Run all remaining steps; returns the seconds they took."""
        moment = Moment(0, self.run, self.history, self)
        mine = [callback for callback in self.callbacks if callback.everywhere or self.run.leads]
        with ExitStack() as stack:
            for callback in mine:
                stack.callback(callback.close)
                callback.setup(moment)
            started = perf_counter()
            stack.callback(self.run.finish)  # also where the run is interrupted
            stack.enter_context(torch.enable_grad())
            stack.enter_context(torch.random.fork_rng())  # the caller's generator is left as it was
            interruption = stack.enter_context(Interruption(patient=len(self.run.everyone(0)) > 1))
            for callback in mine:
                callback.on_start(moment)
            while moment.step < self.steps and self.history.stopped == "steps":
                self._step(moment, mine, interruption)
            self.check_finite(moment.step)
            for callback in mine:
                callback.on_end(moment)
            if any(self.run.everyone(interruption.requested)):  # after the last step, which looked at it
                raise KeyboardInterrupt(f"after {moment.step} steps")
        return perf_counter() - started

    def _step(self, moment: Moment, callbacks: Sequence[Callback], interruption: Interruption) -> None:
        x, y = self.batches.at(moment.step)
        start_generators(mix(self.seed, "step", moment.step))
        moment.terms = self.run.update(x, y, moment.step)
        moment.step += 1
        reason = "steps"
        try:
            for callback in callbacks:
                if callback.on_step(moment):
                    reason = callback.reason
        except KeyboardInterrupt:  # in a callback's own code, between two steps
            interruption.requested = True
        # All processes stop for what one of them has: 2 for Ctrl-C, 1 for a callback of the first.
        found = {int(flag) for flag in self.run.everyone(2 * interruption.requested + (reason == "callback"))}
        interrupted = any(flag >= 2 for flag in found)
        self.history.stopped = "callback" if any(flag % 2 for flag in found) else reason
        moment.ends = interrupted or moment.step == self.steps or self.history.stopped != "steps"
        for callback in callbacks:
            callback.after_step(moment)
        if interrupted:
            raise KeyboardInterrupt(f"after {moment.step} steps")

    def check_finite(self, done: int) -> None:
        """Raise DivergenceError unless all parameters are finite."""
        parameters = [p for module in self.modules.values() for p in module.parameters()]
        if not all(tensor.isfinite().all() for tensor in (*parameters, *self.run.learned())):
            raise DivergenceError(f"parameters are not finite after {done} steps; {REMEDY}")


@contextmanager
def training(*models: nn.Module) -> Iterator[None]:
    """Put models in training mode for a block, and restore the mode of each module after it.

    A model that is already in training mode does not change: parts of it may be in eval mode on purpose.
    """
    flags = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        if not model.training:
            model.train()
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag
