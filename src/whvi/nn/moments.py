"""Means and variances through modules, for prediction without samples."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from whvi.errors import ShapeError
from whvi.nn.law import WeightDistribution
from whvi.posterior import Posterior
from whvi.posterior.base import wide

Back = Callable[[Tensor], tuple[Tensor, Tensor]]


class Stage(NamedTuple):
    """The output of a module for rows of independent elements with a mean and a variance."""

    mean: Tensor
    """(N, ...)."""
    variance: Tensor | None
    """Of each element, (N, ...); None if the output has no uncertainty."""
    back: Back
    """For linear functions u of the output, (F, N, ...): the functions of the input that they are where the module is
    replaced by its best linear approximation, (F, N, ...), and the variance that the rest of the module adds, (F, N).
    It is not asked for where the output is known."""


def nothing_added(u: Tensor) -> tuple[Tensor, Tensor]:
    """The same functions, and a variance of zero."""
    return u, u.new_zeros(u.shape[:2])


def known(mean: Tensor) -> Stage:
    """An output without uncertainty."""
    return Stage(mean, None, nothing_added)


def rows_only(mean: Tensor) -> None:
    """Raise ShapeError unless x is (N, features): outputs at several positions of a row share their weights."""
    if mean.ndim != 2:
        raise ShapeError(
            f"moments of a linear layer are for inputs (rows, features), got {tuple(mean.shape)}: positions of a row "
            "share its weights, so they are correlated; use method='samples'"
        )


def with_bias(stage: Stage, bias: Posterior | None) -> Stage:
    """The stage with an independent bias added to its output."""
    if bias is None:
        return stage
    spread = bias.variance

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        found, added = stage.back(u)
        return found, added + u.square() @ spread

    variance = spread if stage.variance is None else stage.variance + spread
    return Stage(stage.mean + wide(bias.mean), variance.expand(stage.mean.shape), back)


def independent_rows(mean: Tensor, variance: Tensor | None, weight: Tensor, spread: Tensor) -> Stage:
    """y = W x for rows of W that are independent of each other.

    Args:
        mean, variance: of x, (N, in).
        weight: E[W], (out, in).
        spread: the contribution of the variance of W to that of each output, (N, out).
    """
    total = spread if variance is None else spread + variance @ weight.square().mT

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        return u @ weight, (u.square() * spread).sum(-1)

    return Stage(mean @ weight.mT, total, back)


def gaussian_weight(law: WeightDistribution, mean: Tensor, variance: Tensor | None) -> Stage:
    """y = W x for any Gaussian W: exact, in the time of a product for each unit of noise.

    With deviations E_q, one for each column of the root of g's covariance, Var[y_i] is the sum of (E_q E[x])_i^2 and of
    E[W_ij^2] Var[x_j].
    """
    weight, moved = law.mean, law.products(mean)
    alone = None if variance is None else variance @ law.variance.mT
    total = moved.square().sum(0)
    if variance is not None and alone is not None:
        total = total + alone + variance @ weight.square().mT

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        added = torch.einsum("fno,qno->fnq", u, moved).square().sum(-1)
        return u @ weight, added if alone is None else added + (u.square() * alone).sum(-1)

    return Stage(mean @ weight.mT, total, back)
