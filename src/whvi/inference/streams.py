"""Data that arrive in parts: the posterior of one part is the prior of the next."""

from collections.abc import Iterable

from torch import nn

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.likelihoods import Likelihood
from whvi.nn.model import bayesian_layers
from whvi.posterior import Posterior
from whvi.posterior.base import LAST
from whvi.posterior.last import LastPosterior


@checked
def posterior_as_prior(model: nn.Module, likelihood: Likelihood | None = None, *, freeze: bool = True) -> None:
    """Make the current posterior of ``model`` its prior, in place.

    From then on ``whvi.kl(model)`` is the KL to that posterior. A fit to other rows, with only their number as
    ``n_data``, then gives the posterior of all rows, as far as the family of the posterior can represent it.

    Args:
        model: with Gaussian posteriors.
        likelihood: its noise is frozen too.
        freeze: freeze parameters without a posterior: scales S1 and S2, weights of plain layers,
            the noise. The posterior of g holds for these scales. With False they are learned from the new rows alone.

    ``state_dict`` contains the priors, so a saved model keeps them, but not which parameters are
    frozen.

    Law: for a linear model with a full Gaussian g, two halves give the posterior of the whole.

    >>> import whvi
    >>> layer = whvi.nn.WHVILinear(4, 4)
    >>> posterior_as_prior(layer)
    >>> abs(whvi.kl(layer).item()) < 1e-5
    True
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    layers = bayesian_layers(model)
    for layer in layers:
        others = [part for part in layer.kl_pairs() if not isinstance(part, Posterior)]
        if others:
            raise UnsupportedError(f"a {type(layer).__name__} has a KL, but no posterior that can become a prior")
    posteriors = {part for layer in layers for part in layer.kl_pairs() if isinstance(part, Posterior)}
    priors = {posterior: LastPosterior.of(posterior) for posterior in posteriors}
    for posterior, prior in priors.items():
        setattr(posterior, LAST, prior)
    if freeze:
        learned = {id(parameter) for posterior in posteriors for parameter in posterior.parameters()}
        others_of: Iterable[nn.Module] = (model,) if likelihood is None else (model, likelihood)
        for module in others_of:
            for parameter in module.parameters():
                if id(parameter) not in learned:
                    parameter.requires_grad_(False)


def start_from(prior: nn.Module, model: nn.Module, likelihood: Likelihood) -> None:
    """Make ``model`` start at the posterior of another model, or at its own, which becomes its prior."""
    if not isinstance(prior, nn.Module):
        raise InputTypeError(f"prior must be a fitted torch.nn.Module, got {type(prior).__name__}")
    if prior is not model:
        try:
            model.load_state_dict(prior.state_dict())
        except RuntimeError as error:
            raise ArgumentError(f"prior is of another architecture than the model: {error}") from error
    posterior_as_prior(model, likelihood)
