"""Metrics of point predictions, densities and rankings.

Every metric is a float64 scalar. Inputs may have any real dtype; nothing is broadcast, and NaN is an error.
"""

from math import pi, sqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from whvi.errors import ArgumentError, ShapeError
from whvi.predictive.checked import alike, at_least, forecast, numbers, same_device, vector


def rmse(mean: Tensor, y: Tensor) -> Tensor:
    """Root of the mean square of mean - y, over all rows and outputs.

    Shapes: (N, ...) twice -> ().

    >>> rmse(torch.tensor([[1.0], [9.0]]), torch.tensor([[2.0], [2.0]])).item()
    5.0
    """
    mean, y = numbers("mean", mean), numbers("y", y)
    alike("mean", mean, "y", y)
    return (mean - y).square().mean().sqrt()


def mnll(log_prob: Tensor) -> Tensor:
    """Mean negative log-likelihood, in nats for each row: -mean(log p(y_n)), log p the log predictive density.

    A row with zero predicted density (-inf) makes it infinite.

    Shapes: (N) -> ().

    >>> mnll(torch.tensor([-1.0, -3.0])).item()
    2.0
    """
    log_prob = vector("log_prob", log_prob, infinite=True)
    if bool((log_prob == torch.inf).any()):
        raise ArgumentError("log_prob is infinite; the variance of a predictive distribution must be positive")
    return -log_prob.mean()


def error_rate(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Fraction of rows whose most probable class is not the label.

    Shapes: (N, C) and (N) -> ().

    >>> error_rate(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])).item()
    0.5
    """
    probabilities, labels = forecast(probabilities, labels)
    return (probabilities.argmax(dim=-1) != labels).double().mean()


def brier(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Brier score: mean over rows of sum_c (p_c - 1{c = label})^2, from 0 to 2.

    It sums over all classes, as in Brier's definition. The binary score of only one of two classes is half of it.

    Shapes: (N, C) and (N) -> ().

    >>> brier(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).item()
    0.5
    """
    probabilities, labels = forecast(probabilities, labels)
    return (probabilities - one_hot(labels, probabilities.shape[-1])).square().sum(dim=-1).mean()


def crps_gaussian(mean: Tensor, std: Tensor, y: Tensor) -> Tensor:
    """Continuous ranked probability score of N(mean, std^2), in the unit of y: smaller is better.

    CRPS(F, y) = integral (F(t) - 1{y <= t})^2 dt, which is std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)) with
    z = (y - mean) / std; the mean over all rows and outputs.

    Law: at std = 0 it is the mean absolute error.

    Shapes: (N, ...) three times -> ().

    >>> zero, one = torch.zeros(1), torch.ones(1)
    >>> round(crps_gaussian(zero, one, zero).item(), 4), crps_gaussian(zero, zero, one).item()
    (0.2337, 1.0)
    """
    mean, std, y = numbers("mean", mean), numbers("std", std), numbers("y", y)
    alike("mean", mean, "y", y)
    alike("std", std, "y", y)
    at_least("std", std, 0.0)
    error = y - mean
    z = error / std.clamp_min(torch.finfo(std.dtype).tiny)
    density = torch.exp(-0.5 * z.square()) / sqrt(2.0 * pi)
    return (error * torch.erf(z / sqrt(2.0)) + std * (2.0 * density - 1.0 / sqrt(pi))).mean()


def crps_samples(samples: Tensor, y: Tensor) -> Tensor:
    """Continuous ranked probability score of a distribution given by S >= 2 independent samples.

    mean_s |x_s - y| - 1/2 mean_{s != t} |x_s - x_t|, the fair form; the mean over all rows and outputs. The second part
    is a weighted sum of sorted samples, so the cost is S log S instead of S^2.

    Law: its expectation is the score of the distribution itself, for any S. A single row can come out below zero.

    Shapes: (S, N, ...) and (N, ...) -> ().

    >>> crps_samples(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0])).item()
    0.0
    """
    samples, y = numbers("samples", samples), numbers("y", y)
    if samples.shape[1:] != y.shape:
        raise ShapeError(
            f"samples have shape {tuple(samples.shape)}, but y has {tuple(y.shape)}; the samples come first: "
            f"{('S', *y.shape)}"
        )
    same_device("samples", samples, "y", y)
    count = len(samples)
    if count < 2:
        raise ArgumentError("crps_samples needs at least 2 samples, got 1; draw more")
    error = samples - y
    rank = torch.arange(1 - count, count, 2, dtype=error.dtype, device=error.device)
    spread = torch.einsum("s,s...->...", rank, error.sort(dim=0).values) / (count * (count - 1))
    return (error.abs().mean(dim=0) - spread).mean()


def auroc(scores_in: Tensor, scores_out: Tensor) -> Tensor:
    """Area under the ROC curve of a score that should be larger out of distribution: P(out > in) + P(out = in) / 2.

    Scores are entropies or variances, for example; only their order matters. 1 is a perfect detector, 1/2 is chance.

    Law: auroc(a, b) == 1 - auroc(b, a).

    Shapes: (N) and (M) -> ().

    >>> auroc(torch.tensor([0.1, 0.2]), torch.tensor([0.2, 0.3])).item()
    0.875
    """
    inside, outside = vector("scores_in", scores_in, infinite=True), vector("scores_out", scores_out, infinite=True)
    same_device("scores_in", inside, "scores_out", outside)
    inside = inside.sort().values
    below = torch.searchsorted(inside, outside).sum()
    not_above = torch.searchsorted(inside, outside, right=True).sum()
    return (below + not_above).double() / (2 * len(inside) * len(outside))


def sharpness(std: Tensor) -> Tensor:
    """How narrow predictions are, regardless of the truth: the root of the mean variance, sqrt(mean(std^2)).

    Law: for a calibrated distribution, ``rmse`` converges to it.

    Shapes: (N, ...) -> ().

    >>> sharpness(torch.tensor([1.0, 7.0])).item()
    5.0
    """
    std = numbers("std", std)
    at_least("std", std, 0.0)
    return std.square().mean().sqrt()


class SelectiveCurve(NamedTuple):
    """The risk if only the most certain predictions are kept."""

    coverage: Tensor
    """1/N, 2/N, ..., 1: the fraction of rows that are kept (N)."""
    risk: Tensor
    """Mean loss of these rows (N)."""
    area: Tensor
    """Area under risk against coverage, a scalar: the mean of all risks."""


def selective_curve(uncertainty: Tensor, loss: Tensor) -> SelectiveCurve:
    """Risk at every coverage if rows are kept in the order of increasing uncertainty.

    Rows of equal uncertainty have no order: each counts with their mean loss, which is the expected risk of a random
    order.

    Law: a constant loss is the area; the risk at coverage 1 is the mean loss; the order of the rows does not matter.

    Shapes: (N) twice -> (N), (N) and ().

    >>> curve = selective_curve(torch.tensor([0.1, 0.9, 0.4]), torch.tensor([0.0, 3.0, 0.0]))
    >>> curve.risk.tolist()
    [0.0, 0.0, 1.0]
    """
    uncertainty, loss = vector("uncertainty", uncertainty, infinite=True), vector("loss", loss)
    alike("uncertainty", uncertainty, "loss", loss)
    _, group, sizes = torch.unique(uncertainty, return_inverse=True, return_counts=True)
    losses = torch.zeros(len(sizes), dtype=loss.dtype, device=loss.device).index_add(0, group, loss) / sizes
    kept = torch.arange(1, len(loss) + 1, dtype=loss.dtype, device=loss.device)
    risk = losses.repeat_interleave(sizes).cumsum(0) / kept
    return SelectiveCurve(kept / len(loss), risk, risk.mean())
