"""Rows of a table as a fit sees them: each once, with a weight, in an order of their own."""

from dataclasses import dataclass

import numpy as np

from whvi.errors import ArgumentError
from whvi.scaling import Array


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

    Law: a row of weight w gives what w such rows give, and the result does not depend on the order of rows.

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
