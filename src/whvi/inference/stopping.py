"""When to stop before the last step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.inference.algorithm import Terms


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when a number has not become better for a while, and go back to where it was best.

    Args:
        monitor: "elbo", the mean of the bound over the steps since the last look, or "mnll", the mean negative log
            predictive density of the validation rows.
        every: steps between looks.
        patience: looks without a better value before the run stops.
        margin: how much better counts as better, in the unit of the number.
        samples: draws in a prediction for "mnll".
    """

    monitor: str = "mnll"
    every: int = 500
    patience: int = 10
    margin: float = 0.0
    samples: int = 16

    def __post_init__(self) -> None:
        if self.monitor not in ("elbo", "mnll"):
            raise ArgumentError(f"monitor must be 'elbo' or 'mnll', got {self.monitor!r}")
        for name in ("every", "patience", "samples"):
            whole_number(name, getattr(self, name))
        if self.margin < 0.0:
            raise ArgumentError(f"margin must not be negative, got {self.margin}")


class Watch:
    """Early stopping at work: the best value so far, where it was, and the tensors from there."""

    def __init__(self, settings: EarlyStopping) -> None:
        self.settings = settings
        self.best, self.misses = float("inf"), 0
        self.tensors: dict[str, Tensor] = {}
        self._sum, self._count = torch.zeros((), dtype=torch.float64), 0

    def add(self, terms: Terms) -> None:
        """Take in the bound of a step."""
        self._sum = self._sum + (terms.log_likelihood - terms.kl).double().cpu()
        self._count += 1

    def minus_elbo(self) -> float:
        """Minus the mean of the bound since this was asked last."""
        value = -float(self._sum / self._count)
        self._sum, self._count = torch.zeros_like(self._sum), 0
        return value

    def look(self, value: float, tensors: Mapping[str, Tensor]) -> bool:
        """Take in a value, for which less is better; True when it is time to stop."""
        if value < self.best - self.settings.margin:
            self.best, self.misses = value, 0
            self.tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        else:
            self.misses += 1
        return self.misses >= self.settings.patience

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All of it as tensors and JSON."""
        tensors = {f"best.{name}": tensor for name, tensor in self.tensors.items()}
        return {"watch.sum": self._sum, **tensors}, {"best": self.best, "misses": self.misses, "count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """As it was."""
        self.best, self.misses, self._count = numbers["best"], numbers["misses"], numbers["count"]
        self._sum = tensors["watch.sum"]
        self.tensors = {n.removeprefix("best."): t for n, t in tensors.items() if n.startswith("best.")}
