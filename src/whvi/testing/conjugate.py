"""A linear-Gaussian problem with exact evidence and posterior, to test bounds."""

from collections.abc import Sequence
from math import log, pi
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from whvi.errors import ArgumentError
from whvi.nn.linear import WHVILinear


class GaussianLaw(NamedTuple):
    """A Gaussian over a vector."""

    mean: Tensor
    """(n)."""
    covariance: Tensor
    """(n, n)."""


class LinearGaussian:
    """y = J g + noise, g ~ N(0, P), noise ~ N(0, noise_variance I), with all distributions of g in closed form.

    Args:
        design: J, (N, n).
        targets: y, (N).
        noise_variance: of each target.
        prior_covariance: P, (n, n).

    Law: log_evidence() - elbo(m, C) == KL(N(m, C) || posterior()) >= 0.

    >>> problem = LinearGaussian(torch.ones(1, 1).double(), torch.ones(1).double(), 1.0, torch.eye(1).double())
    >>> problem.posterior().mean.item(), problem.posterior().covariance.item()
    (0.5, 0.5)
    >>> abs(float(problem.elbo(*problem.posterior()) - problem.log_evidence())) < 1e-12
    True
    """

    def __init__(self, design: Tensor, targets: Tensor, noise_variance: float, prior_covariance: Tensor) -> None:
        if targets.shape != design.shape[:1]:
            raise ArgumentError(f"targets must have shape {tuple(design.shape[:1])}, got {tuple(targets.shape)}")
        if prior_covariance.shape != 2 * design.shape[1:]:
            raise ArgumentError(
                f"prior_covariance must have shape {tuple(2 * design.shape[1:])}, got {tuple(prior_covariance.shape)}"
            )
        self.design = design
        self.targets = targets
        self.noise_variance = noise_variance
        self.prior_covariance = prior_covariance

    def log_evidence(self) -> Tensor:
        """log p(y) = log N(y; 0, noise_variance I + J P J^T), a scalar."""
        noise = self.noise_variance * torch.eye(len(self.targets), dtype=self.design.dtype)
        covariance = noise + self.design @ self.prior_covariance @ self.design.mT
        value: Tensor = MultivariateNormal(torch.zeros_like(self.targets), covariance).log_prob(self.targets)
        return value

    def precision(self) -> Tensor:
        """Lambda = P^-1 + J^T J / noise_variance, that of the posterior: (n, n)."""
        prior: Tensor = torch.linalg.inv(self.prior_covariance)
        return prior + self.design.mT @ self.design / self.noise_variance

    def posterior(self) -> GaussianLaw:
        """p(g | y)."""
        covariance = torch.linalg.inv(self.precision())
        return GaussianLaw(covariance @ (self.design.mT @ self.targets) / self.noise_variance, covariance)

    def mean_field_optimum(self) -> GaussianLaw:
        """The best Gaussian with a diagonal covariance: the exact mean, and 1 / Lambda_ii."""
        return GaussianLaw(self.posterior().mean, torch.diag(self.precision().diagonal().reciprocal()))

    def log_likelihood(self, g: Tensor) -> Tensor:
        """log p(y | g): (..., n) -> (...)."""
        return self._log_likelihood((self.targets - g @ self.design.mT).square().sum(-1))

    def expected_log_likelihood(self, mean: Tensor, covariance: Tensor) -> Tensor:
        """E[log p(y | g)] for g of that mean (n) and covariance (n, n), whatever its distribution; a scalar."""
        spread = torch.einsum("ij,jk,ik->", self.design, covariance, self.design)
        return self._log_likelihood((self.targets - self.design @ mean).square().sum() + spread)

    def elbo(self, mean: Tensor, covariance: Tensor) -> Tensor:
        """The bound at q = N(mean, covariance), exactly; a scalar."""
        prior = MultivariateNormal(torch.zeros_like(mean), self.prior_covariance)
        return self.expected_log_likelihood(mean, covariance) - kl_divergence(
            MultivariateNormal(mean, covariance), prior
        )

    def gap(self, mean: Tensor, covariance: Tensor) -> Tensor:
        """KL(N(mean, covariance) || posterior), by which the bound falls short of the evidence; a scalar."""
        return kl_divergence(MultivariateNormal(mean, covariance), MultivariateNormal(*self.posterior()))

    def _log_likelihood(self, square: Tensor) -> Tensor:
        constant = len(self.targets) * log(2.0 * pi * self.noise_variance)
        return -0.5 * (square / self.noise_variance + constant)


def design_matrix(layer: WHVILinear, x: Tensor) -> Tensor:
    """J with layer(x).flatten() == J @ g.flatten() when the scales are at their means and there is no bias.

    Shapes: (N, in_features) -> (N * out_features, n), n the number of elements of g.

    >>> layer, x = WHVILinear(3, 5, bias=False, posterior="point"), torch.randn(4, 3)
    >>> torch.allclose(design_matrix(layer, x) @ layer.g.mean, layer(x).flatten(), atol=1e-6)
    True
    """
    event = layer.g.event_shape
    size = layer.g.mean.numel()
    units = torch.eye(size, dtype=x.dtype, device=x.device).reshape(size, 1, *event)
    with torch.no_grad():
        return layer.matrix(None).apply(units, x).reshape(size, -1).mT


def summed_design(layers: Sequence[WHVILinear], x: Tensor) -> Tensor:
    """J of the sum of several layers on one input, their g one after the other: (N * out_features, n1 + n2 + ...)."""
    return torch.cat([design_matrix(layer, x) for layer in layers], dim=1)
