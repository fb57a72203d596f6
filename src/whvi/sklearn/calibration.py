"""How wide predictions are to be, and how sure, as rows that were not trained on tell."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from whvi.predictive.mixture import root
from whvi.scaling import Array

PRIOR_ROWS = 10.0
"""How many rows the belief counts for that predictions are as wide as they should be."""
STEEPEST = 4.0
"""By what log-probabilities are multiplied or divided, at most."""
FIRST_LAPSE, ROUNDS = 0.02, 30
"""Where the search for the share of labels that say nothing begins, and how often it is improved."""


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


class Sureness(NamedTuple):
    """How to change probabilities p of C classes so that they come true: (1 - lapse) softmax(log p / T) + lapse / C.

    >>> Sureness(lapse=0.1).of(torch.tensor([1.0, 0.0])), Sureness().of(torch.tensor([0.7, 0.3]))
    (tensor([0.9500, 0.0500]), tensor([0.7000, 0.3000]))
    """

    temperature: float = 1.0
    """T. Less than 1 makes the most probable class more probable; the order of classes stays."""
    lapse: float = 0.0
    """The share of rows whose label says nothing, such as a wrong one; no class is less probable than its part."""

    def of(self, p: Tensor) -> Tensor:
        """Probabilities as they are to be: (..., classes) -> the same; unchanged ones to the bit."""
        if self == Sureness():
            return p
        log_p = p.clamp_min(torch.finfo(p.dtype).tiny).log()
        return (1.0 - self.lapse) * (log_p / self.temperature).softmax(-1) + self.lapse / p.shape[-1]


def sureness_of(p: Tensor, labels: Tensor, weight: Tensor) -> Sureness:
    """The most probable one, as the labels of rows tell that were not trained on.

    By expectation and maximisation: how probable it is for each row that its label says nothing, then the temperature
    of the others.

    Shapes: (N, classes), (N,), (N,).

    Law: of enough labels that were drawn from the changed probabilities it is that change.

    >>> p = torch.tensor([0.9, 0.1]).expand(10_000, 2)  # but every fourth row has the other label
    >>> sureness_of(p, (torch.arange(10_000) % 4 == 0).long(), torch.ones(10_000)).of(p[0]).round(decimals=2)
    tensor([0.7500, 0.2500])
    """
    classes, found = p.shape[1], Sureness(1.0, FIRST_LAPSE)
    log_p = p.clamp_min(torch.finfo(p.dtype).tiny).log()
    for _ in range(ROUNDS):
        empty = found.lapse / classes / found.of(p).gather(1, labels.unsqueeze(1)).squeeze(1)
        lapse = float(weight @ empty / weight.sum())
        found = Sureness(temperature_of(log_p, labels, weight * (1.0 - empty)), lapse)
    return found


def temperature_of(log_p: Tensor, labels: Tensor, weight: Tensor) -> float:
    """With b = 1 / T, the b of least - sum_i w_i log softmax(b log p_i)[y_i] + ``PRIOR_ROWS`` (b - 1 - log b).

    That is convex, and its last part shrinks T towards 1.
    """
    of_label = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)

    def slope(b: Tensor) -> Tensor:
        expected = ((b * log_p).softmax(1) * log_p).sum(1)
        return weight @ (expected - of_label) + PRIOR_ROWS * (1.0 - 1.0 / b)

    low, high = (torch.tensor(end, dtype=torch.float64) for end in (1.0 / STEEPEST, STEEPEST))
    if slope(high) <= 0.0:
        return 1.0 / STEEPEST
    return STEEPEST if slope(low) >= 0.0 else 1.0 / float(root(slope, low, high))


def relabelled(labels: Tensor, p: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
    """Labels that were drawn from p as labels of other probabilities; as many as can be stay as they are.

    A label stays with probability min(1, wanted / p); else another is drawn from the part of ``wanted`` above p.

    Shapes: (draws, N), (N, classes), (N, classes) -> (draws, N).

    Law: of labels with probabilities p they have the probabilities ``wanted``.

    >>> labels = torch.zeros(2000, 1, dtype=torch.long)
    >>> p, wanted = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.8, 0.2]])
    >>> found = relabelled(labels, p, wanted, torch.Generator().manual_seed(0))
    >>> bool((found.double().mean() - 0.2).abs() < 0.05)
    True
    """
    drawn = labels.mT
    stays = (wanted / p.clamp_min(torch.finfo(p.dtype).tiny)).gather(1, drawn)
    above = (wanted - p).clamp_min(torch.finfo(p.dtype).tiny)
    others = torch.multinomial(above, drawn.shape[1], replacement=True, generator=generator)
    return torch.where(torch.rand(drawn.shape, dtype=p.dtype, generator=generator) < stays, drawn, others).mT
