"""Simulation-based calibration: is the posterior right on average over data that the model itself makes?

If (theta, y) come from the model and theta_1 ... theta_L from its posterior given y, the rank of theta among them is
uniform on 0 ... L (Talts et al., 2018). A posterior that is too narrow, too wide or shifted shows in the histogram.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from whvi.errors import ShapeError


class Uniformity(NamedTuple):
    """A histogram of ranks, and Pearson's test of it."""

    counts: Tensor
    """(bins, ...)."""
    statistic: Tensor
    """Chi-square: (...)."""
    p_value: Tensor
    """(...)."""


def ranks(truth: Tensor, draws: Tensor) -> Tensor:
    """How many draws are below the truth, 0 ... L: (R, ...), (R, L, ...) -> (R, ...).

    >>> ranks(torch.tensor([0.5]), torch.tensor([[0.0, 1.0, 0.2]]))
    tensor([2])
    """
    if draws.shape[:1] + draws.shape[2:] != truth.shape:
        raise ShapeError(f"truth has shape {tuple(truth.shape)}, but draws {tuple(draws.shape)}; expected (R, L, ...)")
    return (draws < truth.unsqueeze(1)).sum(1)


def uniformity(found: Tensor, draws: int, bins: int = 20) -> Uniformity:
    """Pearson's chi-square test of R ranks among ``draws`` draws: (R, ...); ``bins`` must divide draws + 1.

    >>> uniformity(torch.arange(100).repeat(10), draws=99).p_value
    tensor(1., dtype=torch.float64)
    """
    if (draws + 1) % bins:
        raise ShapeError(f"{draws + 1} ranks do not fall into {bins} equal bins")
    place = found // ((draws + 1) // bins)
    counts = torch.stack([(place == b).sum(0) for b in range(bins)])
    expected = found.shape[0] / bins
    statistic = ((counts - expected) ** 2 / expected).sum(0).double()
    half = torch.full_like(statistic, (bins - 1) / 2)
    return Uniformity(counts, statistic, torch.special.gammaincc(half, statistic / 2))


def calibrate(
    replications: int,
    simulate: Callable[[int], tuple[Tensor, tuple[Tensor, Tensor]]],
    infer: Callable[[list[tuple[Tensor, Tensor]]], Tensor],
) -> tuple[Tensor, int]:
    """Ranks of the truth, (replications, ...), and the number of draws they are among.

    Args:
        replications: R.
        simulate: a seed -> the truth, and the data (x, y) that it made.
        infer: R datasets -> draws of the posterior of each, (R, L, ...).
    """
    problems = [simulate(seed) for seed in range(replications)]
    draws = infer([data for _, data in problems])
    return ranks(torch.stack([truth for truth, _ in problems]), draws), draws.shape[1]
