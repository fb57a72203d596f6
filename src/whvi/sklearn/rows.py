"""Rows of a table as a fit sees them: each once, with a weight, in an order of their own; and standardised."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whvi.errors import ArgumentError

Array = NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Different rows and how much each counts."""

    x: Array
    """(N, features)."""
    y: Array
    """(N, outputs)."""
    weight: Array
    """(N,), positive."""

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, chosen: Array) -> "Rows":
        return Rows(self.x[chosen], self.y[chosen], self.weight[chosen])


def merged(x: Array, y: Array, weight: Array) -> Rows:
    """Equal rows as one, with the sum of their weights, in the order of their values; without those of weight zero.

    Args:
        x: (N, features).
        y: (N,) or (N, outputs).
        weight: (N,), not negative and not all zero.

    Law: a row of weight w gives what w such rows give, and the order of rows has no say.

    >>> merged(np.array([[2.0], [1.0], [2.0], [3.0]]), np.array([5.0, 4.0, 5.0, 6.0]), np.array([1, 1, 2, 0.0]))
    Rows(x=array([[1.],
           [2.]]), y=array([[4.],
           [5.]]), weight=array([1., 3.]))
    """
    kept = weight > 0.0
    table = np.column_stack([x, y])[kept]
    order = np.lexsort(table.T)
    table = table[order]
    first = np.flatnonzero(np.concatenate([[True], (table[1:] != table[:-1]).any(axis=1)]))
    return Rows(table[first, : x.shape[1]], table[first, x.shape[1] :], np.add.reduceat(weight[kept][order], first))


@dataclass(frozen=True)
class Scaling:
    """(values - mean) / scale for each column; a column that is constant has scale 1.

    Law: of the rows it was made of, each column has weighted mean 0 and variance 1, or is 0.
    """

    mean: Array
    """(columns,)."""
    scale: Array
    """(columns,), positive."""

    @classmethod
    def of(cls, values: Array, weight: Array) -> "Scaling":
        """That of a table (N, columns) whose rows have weights (N,); ArgumentError if a variance is no float64.

        >>> Scaling.of(np.array([[1.0, 7.0], [3.0, 7.0]]), np.ones(2))
        Scaling(mean=array([2., 7.]), scale=array([1., 1.]))
        """
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.average(values, axis=0, weights=weight)
            scale = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weight))
        if len(bad := np.flatnonzero(~np.isfinite(scale))):
            largest = np.abs(values[:, bad[0]]).max()
            raise ArgumentError(
                f"column {bad[0]} has numbers up to {largest:.3g}, too large for a variance; correct or rescale them"
            )
        # What rounding leaves of a constant column is no scale.
        constant = scale <= 1e-12 * np.maximum(np.abs(mean), np.finfo(float).tiny)
        return cls(mean, np.where(constant, 1.0, scale))

    @classmethod
    def none(cls, columns: int) -> "Scaling":
        """Values as they are."""
        return cls(np.zeros(columns), np.ones(columns))

    def forward(self, values: Array) -> Array:
        """Standardised."""
        return np.asarray((values - self.mean) / self.scale)

    def back(self, values: Array) -> Array:
        """As they were."""
        return np.asarray(values * self.scale + self.mean)


def finite(values: Array) -> Array:
    """Predictions (N, ...), if all of them are numbers; else the error that names the rows.

    >>> finite(np.array([1.0, np.inf]))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: 1 of 2 predictions are not finite, the first of row 1; check the features of these rows
    """
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(bad):
        raise ArgumentError(
            f"{len(bad)} of {len(values)} predictions are not finite, the first of row {bad[0]}; "
            "check the features of these rows"
        )
    return values
