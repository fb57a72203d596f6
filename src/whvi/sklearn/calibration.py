"""How wide predictions are to be, as rows that were not trained on tell."""

import numpy as np

from whvi.scaling import Array

PRIOR_ROWS = 10.0
"""How many rows the belief counts for that predictions are as wide as they should be."""


def spread_of(errors: Array, weight: Array) -> Array:
    """By what to multiply standard deviations so that they fit errors which are measured in them.

    The most probable factor of a normal law, shrunk towards 1 as by ``PRIOR_ROWS`` rows of that.

    Args:
        errors: (target - mean) / std of rows that were not trained on: (N, outputs).
        weight: (N,).

    Shapes: (N, outputs), (N,) -> (outputs,).

    Law: many errors of standard deviation s give s; none give 1.

    >>> spread_of(np.full((10_000, 1), 2.0), np.ones(10_000)).round(2), spread_of(np.zeros((0, 1)), np.ones(0))
    (array([2.]), array([1.]))
    """
    square = weight @ np.square(errors)
    return np.asarray(np.sqrt((PRIOR_ROWS + square) / (PRIOR_ROWS + weight.sum())))
