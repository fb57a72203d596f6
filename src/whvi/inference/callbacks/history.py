"""The history of a run, and its plot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

import torch
from torch import Tensor

from whvi.annotations import checked
from whvi.arguments import number, whole_number
from whvi.errors import DivergenceError
from whvi.inference.algorithm import Terms
from whvi.inference.callbacks.base import Callback, Moment

REMEDY = "lower the learning rate or clip the gradient, and look at the scale of inputs and targets"
_POINTS = 500  # of a curve
_WINDOWS = ("steps", "log_likelihood", "kl", "noise")
"""The fields of each window."""


@checked
@dataclass
class History(Callback):
    """Means over windows of steps, in nats for the whole dataset. With replicas each entry is a list.

    Every fit has one, ``result.history``; pass one as a callback to choose the windows: ``History(every=10)``.
    """

    everywhere: ClassVar[bool] = True
    name: ClassVar[str] = "history"

    every: int | None = None
    """Steps in a window; the last one may be shorter. Default a 500th of all. A resumed run keeps its value."""
    steps: list[int] = field(default_factory=list)
    """The last step of each window, counted from 1."""
    log_likelihood: list[Any] = field(default_factory=list)
    kl: list[Any] = field(default_factory=list)
    noise: list[Any] = field(default_factory=list)
    """Standard deviation of the likelihood's noise, if it has one."""
    validation: list[tuple[int, Any]] = field(default_factory=list)
    """(step, mean negative log predictive density) of the validation rows; NaN for a replica that stopped."""
    stopped: str = "steps"
    """Why the run ended: "steps", "early" or "callback"."""

    def __post_init__(self) -> None:
        if self.every is not None:
            whole_number("every", self.every)
        self._count, self._sum = 0, torch.zeros(2, dtype=torch.float64)

    @property
    def elbo(self) -> list[Any]:
        """log_likelihood - kl."""
        return [_minus(*parts) for parts in zip(self.log_likelihood, self.kl, strict=True)]

    @property
    def latest(self) -> dict[str, Any]:
        """The values of the last window, by readable names."""
        log_likelihood, kl, noise = self.log_likelihood[-1], self.kl[-1], self.noise[-1]
        told = {"elbo": _minus(log_likelihood, kl), "log-lik": log_likelihood, "kl": kl}
        return told if noise is None else {**told, "noise": noise}

    @property
    def summary(self) -> dict[str, float]:
        """The values of the last window as text, as means over replicas; empty before it ends."""
        told = self.latest if self.steps else {}
        return {name: sum(v) / len(v) if isinstance(v, list) else v for name, v in told.items()}

    def ends_at(self, step: int) -> bool:
        """Whether a window ends with this step."""
        return bool(self.steps) and self.steps[-1] == step

    def setup(self, moment: Moment) -> None:
        """Set the default windows."""
        if self.every is None:
            self.every = max(1, moment.loop.steps // _POINTS)

    def on_step(self, moment: Moment) -> None:
        """Record the report of the step; raise DivergenceError at the end of a window that is not finite."""
        assert moment.terms is not None
        if self.add(moment.terms, moment.step - 1, moment.loop.noise):
            self._check_finite()

    def on_end(self, moment: Moment) -> None:
        """End the last window."""
        if self.close_window(moment.step, moment.loop.noise):
            self._check_finite()

    def add(self, terms: Terms, step: int, noise: Any) -> bool:
        """Record the report of a step; True if it ends a window."""
        log_likelihood, kl = terms.log_likelihood, terms.kl
        report = torch.stack((log_likelihood, kl.to(log_likelihood.device))).double().cpu()  # no KL is on the CPU
        self._sum = report if self._count == 0 else self._sum + report
        self._count += 1
        assert self.every is not None
        return (step + 1) % self.every == 0 and self.close_window(step + 1, noise)

    def close_window(self, done: int, noise: Any) -> bool:
        """End the window after ``done`` steps; False if it is empty."""
        if self._count == 0:
            return False
        log_likelihood, kl = (self._sum / self._count).tolist()
        self.steps.append(done)
        self.log_likelihood.append(log_likelihood)
        self.kl.append(kl)
        self.noise.append(noise() if callable(noise) else noise)
        self._count = 0
        return True

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The whole history: tensors, because it may be long, and JSON."""
        kept = {name: getattr(self, name) for name in _WINDOWS if None not in getattr(self, name)}
        tensors = {name: torch.tensor(values, dtype=torch.float64) for name, values in kept.items()}
        numbers = {"every": self.every, "count": self._count, "validation": self.validation}
        return {"sum": self._sum, **tensors}, numbers

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """As it was."""
        self._sum, self.every = tensors["sum"], whole_number("every", numbers["every"])
        self._count = min(whole_number("count", numbers["count"], least=0), self.every)
        self.steps = tensors["steps"].long().tolist()
        for name in _WINDOWS[1:]:
            values = tensors.get(name)
            setattr(self, name, [None] * len(self.steps) if values is None else values.tolist())
        self.validation = [(whole_number("step", step), _look(value)) for step, value in numbers["validation"]]

    def _check_finite(self) -> None:
        if not all(isfinite(value) for value in self.summary.values()):
            bound = self.elbo[-1]
            bad = [r for r, v in enumerate(bound) if not isfinite(v)] if isinstance(bound, list) else []
            where = f" in replicas {bad}" if bad else ""
            raise DivergenceError(
                f"the objective is not finite after {self.steps[-1]} steps{where} ({self.summary}); {REMEDY}"
            )


def _minus(one: Any, other: Any) -> Any:
    """The difference of two numbers, or of those of each replica."""
    return [a - b for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one - other


def _look(value: object) -> float | list[float]:
    """The saved result of an evaluation on validation rows: a number, or one for each replica."""
    return [number("validation", one) for one in value] if isinstance(value, list) else number("validation", value)
