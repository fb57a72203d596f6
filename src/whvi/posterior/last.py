"""An earlier posterior as a prior."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from whvi.errors import UnsupportedError
from whvi.ops.precision import full_precision, wide
from whvi.posterior.base import LAST, Posterior, times
from whvi.posterior.gaussian import DiagonalGaussian
from whvi.posterior.joint import JointPosterior
from whvi.posterior.prior import Prior


class LastPosterior(Prior):
    """N(m, C), a copy of a Gaussian posterior at an earlier time.

    Args:
        mean: m, (..., D).
        white: the whitening of z - m: 1 / std, (..., D), or L^-1 for C = L L^T, (..., D, D).

    Law: KL of the posterior to it is zero.

    >>> posterior = DiagonalGaussian(torch.ones(3))
    >>> round(posterior.kl(LastPosterior.of(posterior)).item(), 6)
    0.0
    """

    mean: Tensor
    white: Tensor

    def __init__(self, mean: Tensor, white: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("white", white)

    @classmethod
    @torch.no_grad()
    def of(cls, posterior: Posterior) -> Self:
        """The current distribution of a Gaussian posterior; others have no closed density and raise an error."""
        if isinstance(posterior, JointPosterior):
            return cls.of(posterior.flat)
        kind = type(posterior).__name__
        if type(posterior) is DiagonalGaussian:
            return cls(posterior.mean.detach().clone(), (-posterior.log_std).exp())
        try:
            root = posterior.covariance_root()
        except UnsupportedError as error:
            raise UnsupportedError(f"a {kind} is not Gaussian, so it cannot become a prior") from error
        with full_precision(root):
            factor = torch.linalg.cholesky((root @ root.mT).double())
        white = torch.linalg.solve_triangular(factor, torch.eye(factor.shape[-1]).to(factor), upper=False)
        return cls(posterior.mean.detach().clone(), white.to(posterior.dtype))

    def centred(self, z: Tensor) -> Tensor:
        """z - m."""
        return z - wide(self.mean)

    def quadratic(self, z: Tensor) -> Tensor:
        """|L^-1 z|^2: (..., D) -> (...)."""
        white = wide(self.white)
        z = white * z if self._diagonal else times(white, z)
        return z.square().sum(-1)

    def trace(self, std: Tensor) -> Tensor:
        """tr(C^-1 diag(std^2)): (..., D) -> (...)."""
        precision = wide(self.white).square()
        value: Tensor = ((precision if self._diagonal else precision.sum(-2)) * std.square()).sum(-1)
        return value

    def log_det(self, event_shape: tuple[int, ...]) -> Tensor | float:
        """Of C, summed over the vectors."""
        white = wide(self.white)
        value: Tensor = -2.0 * (white if self._diagonal else white.diagonal(dim1=-2, dim2=-1)).log().sum()
        return value

    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Draws of that shape, whose last axes are those of the mean."""
        noise = torch.randn(shape, generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        if self._diagonal:
            return self.mean + noise / self.white
        value: Tensor = torch.linalg.solve_triangular(self.white, noise.unsqueeze(-1), upper=False)
        return self.mean + value.squeeze(-1)

    @property
    def _diagonal(self) -> bool:
        return self.white.ndim == self.mean.ndim

    def extra_repr(self) -> str:
        """Shape, for ``print``."""
        return f"event_shape={tuple(self.mean.shape)}"


def make_room(posterior: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Add or remove the last posterior of a posterior, to match a saved state."""
    found = [state[name] for name in (f"{prefix}{LAST}.mean", f"{prefix}{LAST}.white") if name in state]
    if len(found) == 2:
        like = next(posterior.parameters())
        empty = [torch.empty_like(tensor, dtype=like.dtype, device=like.device) for tensor in found]
        setattr(posterior, LAST, LastPosterior(*empty))
    elif hasattr(posterior, LAST):
        delattr(posterior, LAST)
