"""What a callback is, and what it is told."""

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
    """What a callback is told."""

    step: int
    """Steps that are done."""
    run: Run
    history: "History"
    loop: "Loop"
    """All of the fit: its steps, batches, modules, state."""
    terms: Terms | None = None
    """What the step reported; None before the first."""
    ends: bool = False
    """Whether this step is the last one of this call; known once all callbacks had their ``on_step``."""


class Callback:
    """Something that a fit does besides its steps. Subclass it, override what you need, and give it to ``whvi.fit``.

    In a fit that several processes share, only the first one calls it, unless it says ``everywhere``.

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
    """Whether every process of a shared fit calls it."""
    reason: ClassVar[str] = "callback"
    """What ``History.stopped`` says of a run that it ended."""
    name: ClassVar[str] = ""
    """Under which a checkpoint holds its state and identity; needed where it has one, and its own in each fit."""

    def setup(self, moment: Moment) -> None:
        """Before all else: look at the fit, take what is needed, go back to where an earlier call ended."""

    def on_start(self, moment: Moment) -> None:
        """Before the first step of this call."""

    def on_step(self, moment: Moment) -> bool | None:
        """After each step; True ends the run."""

    def after_step(self, moment: Moment) -> None:
        """After each step, when all callbacks had their ``on_step``; also after one that Ctrl-C made the last."""

    def on_end(self, moment: Moment) -> None:
        """After the last step; not where the run was interrupted or failed."""

    def leaves(self) -> Mapping[str, Tensor]:
        """Tensors of the modules that it puts there at the end, by name, if it does; a resumed run knows them again."""
        return {}

    def close(self) -> None:
        """At the very end, whatever happened."""

    def identity(self) -> dict[str, Any]:
        """What a run must have in common with its checkpoint, as JSON by name; for most callbacks nothing."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What it resumes from, as tensors by name and as JSON."""
        return {}, {}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Go on from what ``state`` gave; not called where the run that is resumed had no callback of this name."""


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
