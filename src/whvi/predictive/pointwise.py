"""Mean and variance of a function of a Gaussian, element by element."""

from functools import cache
from math import log, pi, sqrt

import numpy as np
import torch
from torch import Tensor, nn

from whvi.nn.moments import Stage, known
from whvi.ops.precision import wide

POINTS = 32
"""Of the Gauss-Hermite rule: exact for polynomials of degree 63."""

_FAR = {torch.float32: 6.0, torch.float64: 8.5}
"""Standard deviations beyond which a normal has less than one rounding error of its mass."""


def pointwise(module: nn.Module, mean: Tensor, variance: Tensor | None) -> Stage:
    """Any module that is a function of single elements, by a Gauss-Hermite rule with 32 points.

    The gain of its best linear approximation is Cov(f(a), a) / Var[a]. The rule suits functions that are smooth on the
    scale of a's standard deviation; ReLU and LeakyReLU, which have a kink, have formulas of their own.
    """
    if variance is None:
        return known(wide(module(mean)))
    std = _root(variance)
    points, weights = _hermite()
    values = [wide(module(mean + std * point)) for point in points]
    mean_of = sum_of(weights, values)
    away = [value - mean_of for value in values]
    square = sum_of(weights, [value.square() for value in away])
    gain = sum_of([w * z for w, z in zip(weights, points, strict=True)], away) / std
    return spread_out(mean_of, square, gain, variance)


def sum_of(weights: list[float], values: list[Tensor]) -> Tensor:
    """The sum of weighted tensors."""
    total = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total = torch.add(total, value, alpha=weight)
    return total


def relu(module: nn.Module, mean: Tensor, variance: Tensor | None) -> Stage:
    """max(a, 0), exactly; or LeakyReLU with its slope.

    In units of the standard deviation a is z + e. With P = P(z + e > 0), r = E[max(z + e, 0)] = z P + p(z) and
    r' = E[max(-z - e, 0)] = r - z, the mean is r - slope r', the gain P + slope (1 - P), and the variance
    (P - r r') + slope^2 (1 - P - r r') + 2 slope r r': nothing large is taken from something large.
    """
    slope = float(getattr(module, "negative_slope", 0.0))
    if variance is None:
        return known(wide(module(mean)))
    std = _root(variance)
    z = mean / std
    # Farther out nothing changes, but tails would be denormal numbers, with which processors take ten times as long.
    near = z.clamp(-_FAR[z.dtype], _FAR[z.dtype])
    above = torch.erfc(near * -sqrt(0.5)).mul_(0.5)  # in place where no gradient needs what was there
    density = torch.exp(near.square().mul_(-0.5).sub_(0.5 * log(2.0 * pi)))
    over = torch.addcmul(density, z, above).clamp_min_(0.0)
    under = over - z
    product = over * under
    if slope == 0.0:
        return spread_out(std * over, (above - product).mul_(variance), above, variance)
    square = (above - product) + slope**2 * (1.0 - above - product) + 2.0 * slope * product
    return spread_out(std * (over - slope * under), variance * square, slope + (1.0 - slope) * above, variance)


def spread_out(mean: Tensor, variance: Tensor, gain: Tensor, before: Tensor) -> Stage:
    """The stage of a function of single elements.

    Args:
        mean, variance, gain: of the function: (N, ...).
        before: the variance of its argument.
    """

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        rest = torch.addcmul(variance, gain.square(), before, value=-1.0)
        return gain * u, (u.square() * rest).flatten(2).sum(-1)

    return Stage(mean, variance, back)


def _root(variance: Tensor) -> Tensor:
    """The standard deviation, never quite zero."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt_()


@cache
def _hermite() -> tuple[list[float], list[float]]:
    """Points and weights of the rule for a standard normal."""
    points, weights = np.polynomial.hermite_e.hermegauss(POINTS)
    return points.tolist(), (weights / weights.sum()).tolist()
