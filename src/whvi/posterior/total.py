"""The sum of many KL divergences, in few operations."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from whvi.posterior import kl
from whvi.posterior.base import LAST, Posterior, wide
from whvi.posterior.gaussian import DiagonalGaussian
from whvi.posterior.prior import GaussianPrior, Prior

Pairs = Mapping[nn.Module, Prior | Tensor]
"""A posterior and its prior; or any module and a KL that is known already."""


def each_kl(pairs: Pairs) -> dict[nn.Module, Tensor]:
    """The KL of each pair."""
    return {module: _one(module, _prior_of(module, prior)) for module, prior in pairs.items()}


def total_kl(pairs: Pairs) -> Tensor:
    """The sum of all; a scalar, zero when there are none.

    Law: total_kl(pairs) == sum(each_kl(pairs).values()).
    """
    alike: dict[tuple[float, torch.dtype, torch.device], list[DiagonalGaussian]] = {}
    terms = []
    for module, given in pairs.items():
        prior = _prior_of(module, given)
        if type(module) is DiagonalGaussian and type(prior) is GaussianPrior and prior.log_variance is None:
            mean = module.mean
            alike.setdefault((prior.initial_variance, mean.dtype, mean.device), []).append(module)
        else:
            terms.append(_one(module, prior))
    terms += [_diagonals(posteriors, variance) for (variance, *_), posteriors in alike.items()]
    if not terms:
        return torch.zeros(())
    total = terms[0]
    for term in terms[1:]:
        total = total + term.to(total.device)  # the layers of a model may live on several
    return total


def _prior_of(module: nn.Module, given: Prior | Tensor) -> Prior | Tensor:
    """What the module was itself before, where that is its prior now."""
    last = getattr(module, LAST, given)
    assert isinstance(last, Prior | Tensor)
    return last


def _one(module: nn.Module, prior: Prior | Tensor) -> Tensor:
    if isinstance(prior, Tensor):
        return prior
    assert isinstance(module, Posterior)
    return module.kl(prior)


def _diagonals(posteriors: list[DiagonalGaussian], variance: float) -> Tensor:
    return kl.diagonals([wide(q.mean) for q in posteriors], [wide(q.log_std) for q in posteriors], variance)
