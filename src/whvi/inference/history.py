"""What a run reported, and its picture."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from whvi.inference.algorithm import Terms

_WINDOWS = ("steps", "log_likelihood", "kl", "noise")
"""What there is of each window."""


@dataclass
class History:
    """Means over windows of steps, in nats for the whole data set. With replicas each entry is a list, one for each."""

    every: int
    """Steps in a window; the last one may be shorter. A run that is resumed keeps its own."""
    steps: list[int] = field(default_factory=list)
    """The last step of each window, counted from 1."""
    log_likelihood: list[Any] = field(default_factory=list)
    kl: list[Any] = field(default_factory=list)
    noise: list[Any] = field(default_factory=list)
    """Standard deviation of the likelihood's noise, where it has one."""
    validation: list[tuple[int, float]] = field(default_factory=list)
    """(step, mean negative log predictive density) of the validation rows."""
    stopped: str = "steps"
    """Why the run ended: "steps", "early" or "callback"."""

    def __post_init__(self) -> None:
        self._count, self._sum = 0, torch.zeros(2, dtype=torch.float64)

    @property
    def elbo(self) -> list[Any]:
        """log_likelihood - kl."""
        return [_minus(*parts) for parts in zip(self.log_likelihood, self.kl, strict=True)]

    @property
    def latest(self) -> dict[str, Any]:
        """What the last window has to tell, by names for a person."""
        log_likelihood, kl, noise = self.log_likelihood[-1], self.kl[-1], self.noise[-1]
        told = {"elbo": _minus(log_likelihood, kl), "log-lik": log_likelihood, "kl": kl}
        return told if noise is None else {**told, "noise": noise}

    def add(self, terms: Terms, step: int, noise: Any) -> bool:
        """Take in the report of a step; True when it ends a window."""
        log_likelihood, kl = terms.log_likelihood, terms.kl
        report = torch.stack((log_likelihood, kl.to(log_likelihood.device))).double().cpu()  # no KL is on the CPU
        self._sum = report if self._count == 0 else self._sum + report
        self._count += 1
        return (step + 1) % self.every == 0 and self.close(step + 1, noise)

    def close(self, done: int, noise: Any) -> bool:
        """End the window after ``done`` steps; False when there is nothing in it."""
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
        """All of it: tensors, as it may be long, and JSON."""
        kept = {name: getattr(self, name) for name in _WINDOWS if None not in getattr(self, name)}
        tensors = {f"history.{name}": torch.tensor(values, dtype=torch.float64) for name, values in kept.items()}
        numbers = {"every": self.every, "count": self._count, "validation": self.validation}
        return {"history.sum": self._sum, **tensors}, numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """As it was."""
        self._sum, self._count, self.every = tensors["history.sum"], numbers["count"], numbers["every"]
        self.steps = tensors["history.steps"].long().tolist()
        for name in _WINDOWS[1:]:
            values = tensors.get(f"history.{name}")
            setattr(self, name, [None] * len(self.steps) if values is None else values.tolist())
        self.validation = [(step, value) for step, value in numbers["validation"]]


def _minus(one: Any, other: Any) -> Any:
    """Of two numbers, or of those of each replica."""
    return [a - b for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one - other
