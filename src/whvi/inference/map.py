"""Maximum a posteriori estimation of a plain network, with the steps of SVI."""

from dataclasses import dataclass
from math import log, pi
from typing import ClassVar

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.arguments import positive_number
from whvi.errors import ArgumentError
from whvi.inference.renamed import renamed
from whvi.inference.svi import SVI, Bound
from whvi.likelihoods import Likelihood
from whvi.nn.model import bayesian_layers


class LogJoint(Bound):
    """log p(y | parameters) and -log N(parameters; 0, prior_variance I), in place of the KL."""

    settings: "MAP"

    def __init__(self, settings: "MAP", model: nn.Module, likelihood: Likelihood) -> None:
        if bayesian_layers(model):
            raise ArgumentError("MAP needs a network without Bayesian layers; fit this one with SVI")
        super().__init__(settings, model, likelihood)

    def prior_term(self) -> Tensor:
        """Parameters of a likelihood have no such prior."""
        variance = self.settings.prior_variance
        others = {id(parameter) for parameter in self.likelihood.parameters()}
        parameters = [parameter.flatten() for parameter in self.model.parameters() if id(parameter) not in others]
        square = torch.cat(parameters).square().sum()
        return 0.5 * (square / variance + sum(map(len, parameters)) * log(2 * pi * variance))


@renamed(beta="kl_weight", optimiser="optimizer")
@checked
@dataclass(frozen=True)
class MAP(SVI):
    """The mode of the posterior of a plain network: log-likelihood + log N(parameters; 0, prior_variance).

    Without Bayesian layers there is nothing to average over; several of them from different seeds are a deep ensemble
    (``whvi.inference.fit_ensemble``).
    """

    bound: ClassVar[type[Bound]] = LogJoint

    prior_variance: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("prior_variance", self.prior_variance)
