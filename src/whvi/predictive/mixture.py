"""The distribution of a target for several draws: their mixture with equal weights."""

from collections.abc import Callable, Iterable
from math import log, pi, sqrt

import torch
from torch import Tensor

from whvi.errors import UnsupportedError
from whvi.likelihoods import Discrete, Gaussian, Likelihood
from whvi.predictive.functions import Group

_STEPS = 200
_POINTS = 1 << 16


def moments(groups: Iterable[Group], count: int) -> tuple[Tensor, ...]:
    """Mean, variance between functions, variance within them: (rows, ...); mean entropy (rows,) of a discrete target.

    Sums are in float64 and of differences to the first function, so that a small spread about a large mean is right.
    Without a likelihood the target is the function itself, and nothing varies within one.
    """
    sums: list[Tensor] = []
    for f, likelihood in groups:
        mean = (f if likelihood is None else likelihood.mean(f)).double()
        if not sums:
            origin, dtype = mean[0], f.dtype
        mean = mean - origin
        parts = [mean, mean.square(), torch.zeros_like(mean) if likelihood is None else likelihood.variance(f)]
        if isinstance(likelihood, Discrete):
            parts.append(likelihood.entropy(f))
        added = [part.sum(0, dtype=torch.float64) for part in parts]
        sums = [total + part for total, part in zip(sums, added, strict=True)] if sums else added
    shift, square, *others = (total / count for total in sums)
    found = (origin + shift, (square - shift.square()).clamp_min(0.0), *others)
    return tuple(value.to(dtype) for value in found)


def gaussian_entropy(f: Tensor, likelihood: Gaussian) -> Tensor:
    """Entropy of a mixture of Gaussians, -integral p log p, of one output: (functions, rows, features) -> (rows,).

    The trapezoid rule: with steps of half the smallest standard deviation the rule is exact for all practical purposes.
    """
    f = f.double()
    mean, std = likelihood.mean(f).squeeze(-1), likelihood.variance(f).sqrt().squeeze(-1)
    low, high = (mean - 9.0 * std).amin(0), (mean + 9.0 * std).amax(0)
    points = int(((high - low) / std.amin(0)).max() * 2.0) + 2
    if points > _POINTS:
        raise UnsupportedError(
            f"the noise is so small compared with the spread of the draws that the entropy needs a grid of {points} "
            "points; use the mixture's log_prob at draws of sample_y"
        )
    step = (high - low) / (points - 1)
    total = torch.zeros_like(low)
    for i in range(points):
        z = (low + i * step - mean) / std
        density = ((-0.5 * z.square()).exp() / std).mean(0) / sqrt(2.0 * pi)
        total += torch.special.entr(density)
    return total * step


def quantile(f: Tensor, likelihood: Likelihood | None, level: float, upper: bool = False) -> Tensor:
    """The quantile of each output: (functions, rows, features) -> (rows, outputs).

    Args:
        f: the functions.
        likelihood: without one, quantiles are those of the functions, interpolated as ``torch.quantile`` does.
        level: the probability of what is below.
        upper: it is the probability of what is above.

    The level of the mixture is found between bounds for any distribution with these means and variances (Cantelli's
    inequality; Chernoff's in the tail of a Gaussian). The smaller of both probabilities is compared, by its logarithm,
    so that far tails are right too.
    """
    f = f.double()
    if level > 0.5:
        level, upper = 1.0 - level, not upper
    if likelihood is None:
        return _empirical(f, 1.0 - level if upper else level)
    mean, std = likelihood.mean(f), likelihood.variance(f).sqrt()
    gaussian, sign = isinstance(likelihood, Gaussian), -1.0 if upper else 1.0
    far = sqrt(-2.0 * log(level) if gaussian else (1.0 - level) / level)
    near = sqrt(level / (1.0 - level))
    low = (mean - std * (near if upper else far)).amin(0)
    high = (mean + std * (far if upper else near)).amax(0)
    tail = _tail(f, likelihood, upper)
    return root(lambda y: sign * (tail(y).mean(0).log() - log(level)), low, high)


def _tail(f: Tensor, likelihood: Likelihood, upper: bool) -> Callable[[Tensor], Tensor]:
    """P(target <= y | f) or P(target > y | f), as a function of y."""
    if isinstance(likelihood, Gaussian):  # ``torch.special.ndtr`` is 1 + erf, which has no digits left at 1e-12
        mean, scale = likelihood.mean(f), (-sqrt(0.5) if upper else sqrt(0.5)) / likelihood.variance(f).sqrt()
        return lambda y: 0.5 * torch.erfc((mean - y) * scale)
    return lambda y: 1.0 - likelihood.cdf(f, y) if upper else likelihood.cdf(f, y)


def root(rising: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Where a rising function is zero, for each element, between bounds: the method of Chandrupatla (1997).

    Inverse quadratic interpolation where three points say that it is safe, and halving elsewhere.

    >>> ends = torch.tensor([0.0, 100.0], dtype=torch.float64)
    >>> round(root(lambda t: t**3 - 8.0, *ends).item(), 9)
    2.0
    """
    newest, across, oldest = high, low, high  # the root is between the first two
    at_newest, at_across, at_oldest = rising(high), rising(low), torch.zeros_like(high)
    share = torch.full_like(low, 0.5)
    found, done = high, torch.zeros_like(low, dtype=torch.bool)
    for _ in range(_STEPS):
        point = newest + share * (across - newest)
        value = rising(point)
        found = torch.where(done, found, point)
        stays = value.sign() == at_newest.sign()
        oldest, at_oldest = torch.where(stays, newest, across), torch.where(stays, at_newest, at_across)
        across, at_across = torch.where(stays, across, newest), torch.where(stays, at_across, at_newest)
        newest, at_newest = point, value
        done |= (value.abs() < 1e-11) | ((across - newest).abs() <= 1e-14 * (across.abs() + newest.abs()))
        if bool(done.all()):
            break
        place = (newest - across) / (oldest - across)
        height = (at_newest - at_across) / (at_oldest - at_across)
        safe = (height.square() < place) & ((1.0 - height).square() < 1.0 - place)
        share = at_newest / (at_across - at_newest) * at_oldest / (at_across - at_oldest)
        bend = at_newest / (at_oldest - at_newest) * at_across / (at_oldest - at_across)
        share = share + (oldest - newest) / (across - newest) * bend
        share = torch.where(safe, share, 0.5).nan_to_num(0.5).clamp(1e-9, 1.0 - 1e-9)
    return found


def _empirical(f: Tensor, level: float) -> Tensor:
    place = level * (f.shape[0] - 1)
    below = int(place)
    ordered = f.sort(0).values
    return torch.lerp(ordered[below], ordered[min(below + 1, f.shape[0] - 1)], place - below)
