"""The base class of callbacks, and its argument."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from whvi.errors import ArgumentError
from whvi.inference.algorithm import Run, Terms

if TYPE_CHECKING:  # they need this file
    from whvi.inference.callbacks.history import History
    from whvi.inference.loop import Loop


@dataclass(slots=True)
class Moment:
    """The argument of a callback."""

    step: int
    """The number of finished steps."""
    run: Run
    history: "History"
    loop: "Loop"
    """The whole fit: its steps, batches, modules, state."""
    terms: Terms | None = None
    """The report of the step; None before the first."""
    ends: bool = False
    """Whether this step is the last one of this call; known after ``on_step`` of all callbacks."""


class Callback:
    """An action of a fit in addition to its steps. Subclass it, override the methods you need, and pass it to
    ``whvi.fit``.

    In a fit with several processes, only the first one calls it, unless ``everywhere`` is True.

    >>> class Print(Callback):
    ...     def on_step(self, moment):
    ...         print(moment.step)
    >>> import torch, whvi
    >>> x = torch.ones(3, 2)
    >>> _ = whvi.fit(torch.nn.Linear(2, 1), whvi.likelihoods.Gaussian(), (x, x.sum(1)), steps=3, callbacks=[Print()])
    1
    2
    3
    """

    everywhere: ClassVar[bool] = False
    """Whether every process of a distributed fit calls it."""
    reason: ClassVar[str] = "callback"
    """The value of ``History.stopped`` if it ended the run."""
    name: ClassVar[str] = ""
    """The key of its state and identity in a checkpoint; required if it has one, and unique in each fit."""

    def setup(self, moment: Moment) -> None:
        """Called first: inspect the fit, allocate resources, restore an earlier call."""

    def on_start(self, moment: Moment) -> None:
        """Called before the first step of this call."""

    def on_step(self, moment: Moment) -> bool | None:
        """Called after each step; True ends the run."""

    def after_step(self, moment: Moment) -> None:
        """Called after each step, after ``on_step`` of all callbacks; also after a last step due to Ctrl-C."""

    def on_end(self, moment: Moment) -> None:
        """Called after the last step; not if the run was interrupted or failed."""

    def leaves(self) -> Mapping[str, Tensor]:
        """Tensors that it writes to the modules at the end, by name, if any; a resumed run recognises them."""
        return {}

    def close(self) -> None:
        """Always called at the end, even after an error."""

    def identity(self) -> dict[str, Any]:
        """What a run must share with its checkpoint, as JSON by name; empty for most callbacks."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Its state, as tensors by name and as JSON."""
        return {}, {}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the result of ``state``; not called if the saved run had no callback of this name."""


def check_names(callbacks: Sequence[Callback]) -> None:
    """Raise ArgumentError unless a checkpoint can tell the states of all callbacks apart."""
    for one in callbacks:
        kind = type(one)
        if not one.name and (kind.state is not Callback.state or kind.identity is not Callback.identity):
            raise ArgumentError(
                f"{kind.__name__} has a state or an identity, but no name that a checkpoint could keep it under; give "
                f'the class one: name = "{kind.__name__.lower()}"'
            )
        if "." in one.name:  # it would end somewhere within the names of tensors
            raise ArgumentError(f"the name of a callback must not have a dot, got {one.name!r} of {kind.__name__}")
    for name, times in Counter(one.name for one in callbacks if one.name).items():
        if times > 1:
            kinds = " and ".join(type(one).__name__ for one in callbacks if one.name == name)
            raise ArgumentError(
                f"{times} callbacks have the name {name!r} ({kinds}); keep one, or give each its own name"
            )
