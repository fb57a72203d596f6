"""Posteriors by name, such as "diagonal" or "planar:10"."""

import re
from collections.abc import Callable

from torch import Tensor

from whvi.annotations import checked_but
from whvi.errors import ArgumentError, InputTypeError
from whvi.posterior.base import Posterior
from whvi.posterior.flow import PlanarFlow
from whvi.posterior.gaussian import LOG_STD, DiagonalGaussian, FullGaussian, GaussianPosterior, LowRankGaussian
from whvi.posterior.joint import JointPosterior
from whvi.posterior.point import Point

Spec = str | Callable[[Tensor], Posterior]
"""A name, or a function from the initial mean to a posterior."""

_NAMES = "'point', 'diagonal', 'low_rank', 'low_rank:RANK', 'full', 'planar', 'planar:STEPS' or 'planar:STEPS:BASE'"


@checked_but("spec")
def make_posterior(spec: Spec, mean: Tensor, log_std: float = LOG_STD, *, name: str = "posterior") -> Posterior:
    """The posterior that ``spec`` names, with the given initial mean and log standard deviation.

    ``planar:10:full`` is a planar flow of 10 steps on a full Gaussian; the default base is diagonal.
    ``joint:full`` is one posterior over all elements of the mean, ``full`` one for each vector on its last axis.
    A function is called with the initial mean. Errors call the argument ``name``.

    >>> import torch
    >>> make_posterior("planar:3:low_rank:2", torch.zeros(4))
    PlanarFlow(
      event_shape=(4,)
      (base): LowRankGaussian(event_shape=(4,))
    )
    """
    if not isinstance(spec, str):
        if not callable(spec):
            raise InputTypeError(f"{name} must be a string or a function of the initial mean, got {spec!r}")
        made = spec(mean)
        if not isinstance(made, Posterior):
            raise InputTypeError(f"the function given as {name} returned {type(made).__name__}, not a Posterior")
        return made
    if spec.startswith("joint:"):
        flat = make_posterior(spec.removeprefix("joint:"), mean.flatten(), log_std, name=name)
        return flat if mean.ndim == 1 else JointPosterior(flat, tuple(mean.shape))
    if spec in ("point", "optimised"):
        return Point(mean)
    if match := re.fullmatch(r"planar(?::(\d+))?(?::(.+))?", spec):
        base = _gaussian(match[2] or "diagonal", mean, log_std)
        if base is not None:
            return PlanarFlow(base, int(match[1] or 10))
    elif (gaussian := _gaussian(spec, mean, log_std)) is not None:
        return gaussian
    raise ArgumentError(f"{name} {spec!r} is unknown; use {_NAMES}, or 'joint:' and one of them")


def _gaussian(spec: str, mean: Tensor, log_std: float) -> GaussianPosterior | None:
    if spec == "diagonal":
        return DiagonalGaussian(mean, log_std)
    if spec == "full":
        return FullGaussian(mean, log_std)
    if match := re.fullmatch(r"low_rank(?::(\d+))?", spec):
        return LowRankGaussian(mean, log_std, rank=int(match[1] or 8))
    return None
