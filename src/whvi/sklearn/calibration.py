"""How wide predictions are to be, as rows that were not trained on tell."""

import numpy as np

from whvi.scaling import Array

PRIOR_ROWS = 10.0
"""How many rows the belief counts for that predictions are as wide as they should be."""


def squares_of(y: Array, mean: Array, variance: Array, own: Array) -> Array:
    """Squared errors of the mixture of M members, in its variances, as members tell that have not seen the row.

    m is the mean of the member that left a row out, v the variance and b the variance of the means of all members. The
    mixture has the variance mean(v) + b; b is a part of the member's squared error that the mixture does not have, so
    that it has (y - m)^2 - b in expectation. One such number can be below zero.

    Args:
        y: (N, outputs).
        mean, variance: of each member: (M, N, outputs).
        own: which member left each row out: (N,).

    Shapes: (N, outputs), (M, N, outputs) twice, (N,) -> (N, outputs).

    Law: of one member it is (y - mean)^2 / variance.

    >>> one = np.ones((1, 2, 1))
    >>> squares_of(np.array([[1.0], [4.0]]), one, 4.0 * one, np.zeros(2, int)).T
    array([[0.  , 2.25]])
    """
    apart = mean.var(axis=0)
    missed = np.square(y - mean[own, np.arange(len(y))])
    return np.asarray((missed - apart) / (variance.mean(axis=0) + apart))


def spread_of(squares: Array, weight: Array) -> Array:
    """By what to multiply standard deviations so that they fit errors which are measured in them.

    The most probable factor of a normal distribution, shrunk towards 1 as by ``PRIOR_ROWS`` rows of that.

    Args:
        squares: of (target - mean) / std of rows that were not trained on: (N, outputs).
        weight: (N,).

    Shapes: (N, outputs), (N,) -> (outputs,).

    Law: many errors of standard deviation s give s; none give 1.

    >>> spread_of(np.full((10_000, 1), 4.0), np.ones(10_000)).round(2), spread_of(np.zeros((0, 1)), np.ones(0))
    (array([2.]), array([1.]))
    """
    total = np.maximum(weight @ squares, 0.0)
    return np.asarray(np.sqrt((PRIOR_ROWS + total) / (PRIOR_ROWS + weight.sum())))
