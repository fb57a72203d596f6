"""The sum of many KL divergences, in few operations."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from whvi.errors import InputTypeError
from whvi.posterior import kl
from whvi.posterior.base import LAST, Posterior, wide
from whvi.posterior.gaussian import DiagonalGaussian
from whvi.posterior.prior import GaussianPrior, Prior

Pairs = Mapping[nn.Module, Prior | Tensor]
"""A posterior and its prior; or any module and a KL that was already computed."""


def each_kl(pairs: Pairs) -> dict[nn.Module, Tensor]:
    """The KL of each pair."""
    _check(pairs)
    return {module: _one(module, _prior_of(module, prior)) for module, prior in pairs.items()}


def total_kl(pairs: Pairs) -> Tensor:
    """The sum of all; a scalar, zero if there are none.

    Law: total_kl(pairs) == sum(each_kl(pairs).values()).
    """
    _check(pairs)
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
    """The earlier posterior of the module, if it is its prior now."""
    last = getattr(module, LAST, given)
    assert isinstance(last, Prior | Tensor)
    return last


def _check(pairs: object) -> None:
    if not isinstance(pairs, Mapping):
        raise InputTypeError(f"pairs must be a mapping of posteriors to their priors, got {type(pairs).__name__}")
    for module, prior in pairs.items():
        if not isinstance(module, nn.Module) or not isinstance(prior, Prior | Tensor):
            one, other = type(module).__name__, type(prior).__name__
            raise InputTypeError(f"pairs must map posteriors to priors, or modules to their KL, got {one} and {other}")


def _one(module: nn.Module, prior: Prior | Tensor) -> Tensor:
    if isinstance(prior, Tensor):
        return prior
    if not isinstance(module, Posterior):
        raise InputTypeError(
            f"pairs must map a Posterior to its prior, or any module to its KL, got a {type(module).__name__}"
        )
    return module.kl(prior)


def _diagonals(posteriors: list[DiagonalGaussian], variance: float) -> Tensor:
    return kl.diagonals([wide(q.mean) for q in posteriors], [wide(q.log_std) for q in posteriors], variance)
