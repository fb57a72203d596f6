"""Evaluation of a model on held-out rows, compared with a baseline that ignores all columns."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whvi.predictive import brier, coverage, crps_gaussian, ece, error_rate, interval_width, mnll, rmse
from whvi_tables.fields import Array

LEVELS = np.linspace(0.05, 0.95, 19)
"""Of the quantiles whose calibration is shown."""
BINS = 10
"""Of confidence, whose calibration is shown."""
MNLL = "mean negative log density of the target, in nats"
CRPS = "distance of the predicted distribution from the target, in its unit; here of a normal distribution"


@dataclass(frozen=True)
class Metric:
    """A number with that of the baseline."""

    name: str
    value: float
    baseline: float | None
    goal: str
    """Which value is better: "low", "high", or "" if this depends on another metric."""
    note: str
    style: str = ".4g"

    @property
    def wins(self) -> bool | None:
        """Whether it is better than the baseline; None if the comparison has no meaning."""
        if self.baseline is None or not self.goal:
            return None
        return self.value < self.baseline if self.goal == "low" else self.value > self.baseline

    def shown(self, value: float | None) -> str:
        """A value of this metric as text."""
        return "" if value is None else f"{value:{self.style}}".replace("%", " %")


@dataclass(frozen=True)
class Numbers:
    """Predicted numbers of N held-out rows, and the truth."""

    rows: NDArray[np.int64]
    """Places in the file, from 0."""
    y: Array
    mean: Array
    std: Array
    low: Array
    high: Array
    level: float
    quantiles: Array
    """(N, levels)."""
    log_prob: Array
    """Log predictive density of the truth."""
    learned: Array
    """Targets of the training rows."""

    @cached_property
    def observed(self) -> Array:
        """Fraction of targets below each quantile: (levels)."""
        return np.asarray((self.y[:, None] <= self.quantiles).mean(0))

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Which intervals contain the target."""
        return (self.low <= self.y) & (self.y <= self.high)

    @cached_property
    def metrics(self) -> list[Metric]:
        """Beside a baseline that says the mean and the spread of the training rows for every row."""
        y, mean, std, low, high = map(torch.from_numpy, (self.y, self.mean, self.std, self.low, self.high))
        centre, spread = torch.full_like(y, self.learned.mean()), torch.full_like(y, self.learned.std())
        edges = np.quantile(self.learned, [0.5 - self.level / 2, 0.5 + self.level / 2])
        bottom, top = (torch.full_like(y, edge) for edge in edges)
        share = f"{100 * self.level:g} %"

        def pair(function: Any, one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> tuple[float, float]:
            return float(function(*one)), float(function(*other))

        return [
            Metric("RMSE", *pair(rmse, (mean, y), (centre, y)), "low", "root of the mean squared error"),
            Metric("MAE", *pair(_mae, (mean, y), (centre, y)), "low", "mean absolute error"),
            Metric(
                "R²",
                *pair(_explained, (mean, y), (centre, y)),
                "high",
                "fraction of explained variance",
                ".3f",
            ),
            Metric("MNLL", -float(self.log_prob.mean()), _normal_mnll(centre, spread, y), "low", MNLL, ".3f"),
            Metric("CRPS", *pair(crps_gaussian, (mean, std, y), (centre, spread, y)), "low", CRPS),
            Metric(
                f"coverage of {share} intervals",
                *pair(coverage, (low, high, y), (bottom, top, y)),
                "",
                f"fraction of targets in their interval; {share} is ideal",
                ".1%",
            ),
            Metric(
                f"width of {share} intervals",
                *pair(interval_width, (low, high), (bottom, top)),
                "",
                "mean; narrower is better if the coverage is right",
            ),
        ]


@dataclass(frozen=True)
class Classes:
    """Predicted probabilities of N held-out rows, and the true classes."""

    rows: NDArray[np.int64]
    y: NDArray[Any]
    """(N) texts."""
    classes: tuple[str, ...]
    probabilities: Array
    """(N, C)."""
    learned: NDArray[Any]

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Places of the true classes: (N)."""
        return np.array([self.classes.index(label) for label in self.y])

    @property
    def guess(self) -> NDArray[np.int64]:
        """Places of the most probable classes: (N)."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def entropy(self) -> Array:
        """Of each row, in nats: (N)."""
        return entropy(self.probabilities)

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Which rows are right."""
        return np.asarray(self.guess == self.labels)

    @cached_property
    def metrics(self) -> list[Metric]:
        """Beside a baseline that says the shares of the training rows for every row."""
        labels, given = torch.from_numpy(self.labels), torch.from_numpy(self.probabilities)
        shares = torch.tensor([(self.learned == name).mean() for name in self.classes], dtype=torch.float64)
        always = shares.expand(len(labels), -1)

        def pair(function: Any) -> tuple[float, float]:
            return float(function(given, labels)), float(function(always, labels))

        right = [1.0 - value for value in pair(error_rate)]
        return [
            Metric(
                "accuracy", right[0], right[1], "high", "fraction of rows whose most probable class is correct", ".1%"
            ),
            Metric("MNLL", *pair(_class_mnll), "low", "mean negative log probability of the true class", ".3f"),
            Metric(
                "Brier score", *pair(brier), "low", "mean squared distance of the probabilities from the truth", ".3f"
            ),
            Metric("ECE", float(ece(given, labels, BINS)), None, "low", "gap between confidence and accuracy", ".1%"),
        ]


Judgement = Numbers | Classes


def entropy(probabilities: Array) -> Array:
    """Of each row, in nats: (N, C) -> (N).

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3).tolist()
    [0.0, 0.693]
    """
    return np.asarray(-(probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0))).sum(1)) + 0.0


def _mae(mean: Tensor, y: Tensor) -> Tensor:
    return (mean - y).abs().mean()


def _explained(mean: Tensor, y: Tensor) -> Tensor:
    return 1.0 - (mean - y).square().sum() / (y - y.mean()).square().sum()


def _normal_mnll(mean: Tensor, std: Tensor, y: Tensor) -> float:
    return float(mnll(torch.distributions.Normal(mean, std).log_prob(y)))


def _class_mnll(probabilities: Tensor, labels: Tensor) -> Tensor:
    return mnll(probabilities.gather(1, labels[:, None]).squeeze(1).log())
