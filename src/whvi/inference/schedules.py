"""Schedules: factors of a learning rate, weights of the KL."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from whvi.annotations import checked, checked_but
from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError

Schedule = Callable[[int], float]
"""A number for each step, from 0. It depends only on the step, so a run can resume at any step."""


@checked
@dataclass(frozen=True)
class Constant:
    """The same number at all steps.

    >>> Constant(0.5)(100)
    0.5
    """

    value: float = 1.0

    def __post_init__(self) -> None:
        _not_negative(value=self.value)

    def __call__(self, step: int) -> float:
        """At a step."""
        return self.value


@checked
@dataclass(frozen=True)
class PowerDecay:
    """(1 + gamma t)^-power: how the paper's learning rate falls.

    >>> PowerDecay(gamma=0.5, power=1.0)(2)
    0.5
    """

    gamma: float = 0.0005
    power: float = 0.3

    def __post_init__(self) -> None:
        _not_negative(gamma=self.gamma, power=self.power)

    def __call__(self, step: int) -> float:
        """At a step."""
        return float((1.0 + self.gamma * step) ** -self.power)


@checked
@dataclass(frozen=True)
class CosineDecay:
    """Half a cosine from 1 to 0 over ``steps``.

    A learning rate that ends at zero averages out the noise of the last batches, so it may start higher.

    >>> [round(CosineDecay(4)(t), 3) for t in (0, 1, 2, 3, 4, 5)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """

    steps: int

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)

    def __call__(self, step: int) -> float:
        """At a step."""
        return 0.5 + 0.5 * cos(pi * min(1.0, step / self.steps))


@checked
@dataclass(frozen=True)
class OneCycle:
    """Up from ``start`` to 1 over the first ``share`` of ``steps``, and down to 0, each along half a cosine.

    The warm-up allows a high learning rate, which trains a network in few passes (Smith, 2018).

    >>> [round(OneCycle(10, share=0.5, start=0.0)(t), 3) for t in (0, 2, 5, 7, 10, 11)]
    [0.0, 0.345, 1.0, 0.655, 0.0, 0.0]
    """

    steps: int
    share: float = 0.25
    start: float = 0.04

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        _not_negative(start=self.start)
        if not 0.0 < self.share < 1.0:
            raise ArgumentError(f"share must be more than 0 and less than 1, got {self.share}")

    def __call__(self, step: int) -> float:
        """At a step."""
        top = self.share * self.steps
        if step < top:
            return self.start + (1.0 - self.start) * (0.5 - 0.5 * cos(pi * step / top))
        return 0.5 + 0.5 * cos(pi * min(1.0, (step - top) / (self.steps - top)))


@checked
@dataclass(frozen=True)
class LinearWarmup:
    """From ``start`` to 1 in a straight line over ``steps``, then 1.

    >>> [LinearWarmup(4)(t) for t in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """

    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        _not_negative(start=self.start)

    def __call__(self, step: int) -> float:
        """At a step."""
        return self.start + (1.0 - self.start) * min(1.0, step / self.steps)


@checked_but("schedule")
@dataclass(frozen=True)
class Scaled:
    """Another schedule times a number. A KL weight that ends below 1 gives a tempered ("cold") posterior.

    Its objective is not a bound on the evidence.

    >>> [Scaled(LinearWarmup(4), 0.5)(t) for t in (0, 1, 4, 9)]
    [0.0, 0.125, 0.5, 0.5]
    """

    schedule: Schedule
    factor: float

    def __post_init__(self) -> None:
        if not callable(self.schedule):
            raise InputTypeError(
                f"schedule must be a function of the step such as LinearWarmup(100), got {self.schedule!r}"
            )
        _not_negative(factor=self.factor)

    def __call__(self, step: int) -> float:
        """At a step."""
        return self.factor * self.schedule(step)


@checked
@dataclass(frozen=True)
class CyclicWarmup:
    """A repeated linear warm-up: it takes ``share`` of each ``period``, and the rest of the period stays at 1.

    After the last of ``cycles`` it stays at 1 (Fu et al., 2019).

    >>> [CyclicWarmup(period=4)(t) for t in (0, 1, 2, 3, 4, 5, 99)]
    [0.0, 0.5, 1.0, 1.0, 0.0, 0.5, 1.0]
    """

    period: int
    share: float = 0.5
    cycles: int = 4

    def __post_init__(self) -> None:
        whole_number("period", self.period)
        whole_number("cycles", self.cycles)
        if not 0.0 < self.share <= 1.0:
            raise ArgumentError(f"share must be more than 0 and at most 1, got {self.share}")

    def __call__(self, step: int) -> float:
        """At a step."""
        if step >= self.period * self.cycles:
            return 1.0
        return min(1.0, (step % self.period) / (self.share * self.period))


class PowerDecayLR(LRScheduler):
    """``PowerDecay`` as a scheduler of torch, for your own training loop.

    >>> import torch
    >>> optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> scheduler = PowerDecayLR(optimizer, gamma=1.0, power=1.0)
    >>> optimizer.step(); scheduler.step(); scheduler.get_last_lr()
    [0.05]
    """

    @checked
    def __init__(self, optimizer: Optimizer, gamma: float = 0.0005, power: float = 0.3, last_epoch: int = -1) -> None:
        if last_epoch != -1 and not all("initial_lr" in group for group in optimizer.param_groups):
            raise ArgumentError(
                f"last_epoch is {last_epoch}, but the optimizer has not run with a schedule; use -1 for a new run, "
                "or load the state of the optimizer first"
            )
        self.decay = PowerDecay(gamma, power)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Rates of all groups at this step."""
        return [base * self.decay(self.last_epoch) for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Numbers only."""
        state = super().state_dict()
        state.pop("decay")
        return state


def at(schedule: float | Schedule, step: int) -> float:
    """The value of a number or a schedule at a step."""
    return schedule(step) if callable(schedule) else schedule


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0.0 <= value < float("inf"):
            raise ArgumentError(f"{name} must be a finite number that is not negative, got {value}")
