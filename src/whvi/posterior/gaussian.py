"""Gaussian posteriors: diagonal, low rank plus diagonal, full."""

from abc import abstractmethod
from math import exp

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import ArgumentError
from whvi.posterior import kl
from whvi.posterior.base import Posterior, Shape, check_floating, standard_normal, times, wide
from whvi.posterior.prior import Prior

LOG_STD = -2.0
"""Initial log standard deviation, a log-variance of -4."""


class GaussianPosterior(Posterior):
    """N(mean, R R^T), with a root R that the subclasses parameterise.

    Args:
        mean: (..., D), initial mean; it sets shape, dtype and device.
        log_std: initial log of the standard deviation (of the conditional one, for the full Gaussian).
    """

    @checked
    def __init__(self, mean: Tensor, log_std: float = LOG_STD) -> None:
        super().__init__()
        check_floating("mean", mean)
        if mean.ndim == 0:
            raise ArgumentError("mean must have at least one axis")
        self.mean = nn.Parameter(mean)
        self.log_std = nn.Parameter(torch.full_like(mean, log_std))

    @property
    def event_shape(self) -> Shape:
        """Shape of the mean."""
        return tuple(self.mean.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return self.log_std.dtype

    @abstractmethod
    def half_log_det(self) -> Tensor:
        """Half the log-determinant of the covariance, summed; a scalar."""

    @abstractmethod
    def prior_trace(self, prior: Prior) -> Tensor:
        """tr(P^-1 C) for the covariance P of the prior: (...), to be summed."""

    @checked
    def kl(self, prior: Prior) -> Tensor:
        """KL(q || prior), exactly."""
        size = self.mean.numel()
        quadratic, trace = prior.quadratic(prior.centred(wide(self.mean))), self.prior_trace(prior)
        if self.mean.ndim > 1:
            quadratic, trace = quadratic.sum(), trace.sum()
        return kl.gaussian(quadratic, trace, self.half_log_det(), prior.log_det(self.event_shape), size)


class DiagonalGaussian(GaussianPosterior):
    """N(mean, diag(exp(2 log_std))): 2 D parameters."""

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """mean + exp(log_std) * eps."""
        noise = standard_normal(self.mean, (*shape, *self.mean.shape), seed, offset)
        return torch.addcmul(wide(self.mean), wide(self.log_std).exp(), noise)

    @property
    def variance(self) -> Tensor:
        """exp(2 log_std)."""
        return (2.0 * wide(self.log_std)).exp()

    def half_log_det(self) -> Tensor:
        """Sum of log_std."""
        return wide(self.log_std).sum()

    def prior_trace(self, prior: Prior) -> Tensor:
        """Of diag(exp(2 log_std))."""
        return prior.trace(wide(self.log_std).exp())

    def covariance_root(self) -> Tensor:
        """diag(exp(log_std)): (..., D, D)."""
        return torch.diag_embed(wide(self.log_std).exp())


class LowRankGaussian(GaussianPosterior):
    """N(mean, F F^T + diag(exp(2 log_std))) with F of rank r: (2 + r) D parameters.

    Args:
        mean, log_std: as for every Gaussian.
        rank: r.
    """

    @checked
    def __init__(self, mean: Tensor, log_std: float = LOG_STD, *, rank: int = 8) -> None:
        super().__init__(mean, log_std)
        if rank < 1:
            raise ArgumentError(f"the rank of a low-rank Gaussian must be at least 1, got {rank}")
        # Small, so that training starts near the diagonal; not zero, where the gradient of F vanishes.
        spread = 0.1 * exp(log_std)
        self.factor = nn.Parameter(torch.randn(*mean.shape, rank, dtype=mean.dtype, device=mean.device) * spread)

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """mean + exp(log_std) * eps + F eta."""
        *lead, size, rank = self.factor.shape
        # One stream for both: each draw takes D + r numbers.
        noise = standard_normal(self.mean, (*shape, *lead, size + rank), seed, offset)
        diagonal = torch.addcmul(wide(self.mean), wide(self.log_std).exp(), noise[..., :size])
        return diagonal + times(wide(self.factor), noise[..., size:])

    def half_log_det(self) -> Tensor:
        """By the matrix determinant lemma."""
        return kl.low_rank_half_log_det(wide(self.factor), wide(self.log_std))

    def prior_trace(self, prior: Prior) -> Tensor:
        """Of the diagonal, and of the columns of F."""
        return prior.trace(wide(self.log_std).exp()) + prior.quadratic(wide(self.factor).movedim(-1, 0)).sum(0)

    def covariance_root(self) -> Tensor:
        """(diag(exp(log_std)), F): (..., D, D + r)."""
        return torch.cat((torch.diag_embed(wide(self.log_std).exp()), wide(self.factor)), dim=-1)


class FullGaussian(GaussianPosterior):
    """N(mean, L L^T) with L lower triangular, its diagonal exp(log_std): D (D + 3) / 2 parameters."""

    def __init__(self, mean: Tensor, log_std: float = LOG_STD) -> None:
        super().__init__(mean, log_std)
        size = mean.shape[-1]
        self.lower = nn.Parameter(mean.new_zeros(*mean.shape[:-1], size * (size - 1) // 2))
        """The elements of L below its diagonal, row after row."""

    def root(self) -> Tensor:
        """L: (..., D, D)."""
        std = wide(self.log_std).exp()
        size = std.shape[-1]
        row, column = torch.tril_indices(size, size, -1, device=std.device)
        below = std.new_zeros(*std.shape[:-1], size * size).index_copy(-1, row * size + column, wide(self.lower))
        return torch.diag_embed(std) + below.reshape(*std.shape, size)

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """mean + L eps."""
        noise = standard_normal(self.mean, (*shape, *self.mean.shape), seed, offset)
        return wide(self.mean) + times(self.root(), noise)

    def half_log_det(self) -> Tensor:
        """Sum of log_std."""
        return wide(self.log_std).sum()

    def prior_trace(self, prior: Prior) -> Tensor:
        """Sum over the columns of L."""
        return prior.quadratic(self.root().movedim(-1, 0)).sum(0)

    def covariance_root(self) -> Tensor:
        """L: (..., D, D)."""
        return self.root()
