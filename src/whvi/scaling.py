"""Standardising columns to mean 0 and variance 1, and the inverse."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whvi.errors import ArgumentError

Array = NDArray[Any]


@dataclass(frozen=True)
class Scaling:
    """(values - mean) / scale for each column; a constant column has scale 1.

    Law: of the rows it was made of, each column has weighted mean 0 and variance 1, or is 0.
    """

    mean: Array
    """(columns,)."""
    scale: Array
    """(columns,), positive."""

    @classmethod
    def of(cls, values: Array, weight: Array | None = None, correction: int = 0) -> "Scaling":
        """That of a table (N, columns) whose rows have weights (N,); ArgumentError if a variance is no float64.

        Args:
            weight: the weight of each row; default 1.
            correction: subtracted from the number of rows in the denominator of the variance, as in ``torch.std``.

        >>> Scaling.of(np.array([[1.0, 7.0], [3.0, 7.0]]))
        Scaling(mean=array([2., 7.]), scale=array([1., 1.]))
        """
        rows = len(values) if weight is None else float(weight.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(values, axis=0, weights=weight)
            variance = np.average(np.square(values - mean), axis=0, weights=weight)
            scale = np.sqrt(variance * (rows / (rows - correction)) if correction else variance)
        if len(bad := np.flatnonzero(~np.isfinite(scale))):
            largest = np.abs(values[:, bad[0]]).max()
            raise ArgumentError(
                f"column {bad[0]} has numbers up to {largest:.3g}, too large for a variance; correct or rescale them"
            )
        # The mean of equal numbers can miss them by a rounding error, which is no scale.
        constant = scale <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
        return cls(mean, np.where(constant, 1.0, scale))

    @classmethod
    def none(cls, columns: int) -> "Scaling":
        """Values as they are."""
        return cls(np.zeros(columns), np.ones(columns))

    @property
    def log_volume(self) -> float:
        """What a log density of standardised values has more than that of the values: log p(z) = log p(y) + this."""
        return float(np.log(self.scale).sum())

    def forward(self, values: Array) -> Array:
        """Standardised."""
        return np.asarray((values - self.mean) / self.scale)

    def back(self, values: Array) -> Array:
        """As they were."""
        return np.asarray(values * self.scale + self.mean)
