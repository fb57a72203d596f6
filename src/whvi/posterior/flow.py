"""Planar flows on a Gaussian base."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from whvi.annotations import checked
from whvi.errors import ArgumentError
from whvi.ops import draw_seed
from whvi.posterior import kl
from whvi.posterior.base import Posterior, Shape, wide
from whvi.posterior.gaussian import GaussianPosterior
from whvi.posterior.prior import Prior

_MEAN_SEED = 0x5EED
_SOFTPLUS_OF_ONE = 0.5413248546129181
"""log(e - 1): softplus of it is 1."""


class PlanarFlow(Posterior):
    """z_K = f_K(... f_1(z_0)), z_0 ~ base, f_k(z) = z + u_k tanh(w_k . z + b_k): 2 D + 1 parameters for each step.

    f is invertible if u . w >= -1 (Rezende and Mohamed, 2015, appendix A.1). The stored u is free; the effective u is
    moved along w so that u . w = softplus(.) - 1, with the argument shifted so that u = 0 stays the identity.

    Args:
        base: a Gaussian over the vector.
        steps: K.
        kl_samples: draws in an estimate of the KL.
        mean_samples: draws in the estimate of the mean, always the same ones.
    """

    @checked
    def __init__(
        self, base: GaussianPosterior, steps: int = 10, *, kl_samples: int = 16, mean_samples: int = 1024
    ) -> None:
        super().__init__()
        for name, value in (("steps", steps), ("kl_samples", kl_samples), ("mean_samples", mean_samples)):
            if value < 1:
                raise ArgumentError(f"{name} of a planar flow must be at least 1, got {value}")
        self.base = base
        self.kl_samples = kl_samples
        self.mean_samples = mean_samples
        start = base.mean.detach()
        size = start.shape[-1]
        # u starts near zero: the flow starts as the identity, and w in random directions sees z at unit scale.
        self.u = nn.Parameter(0.01 * _normal(start, steps))
        self.w = nn.Parameter(_normal(start, steps) * size**-0.5)
        self.b = nn.Parameter(start.new_zeros(steps, *start.shape[:-1]))

    @property
    def event_shape(self) -> Shape:
        """Shape of the base."""
        return self.base.event_shape

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """E[z_K], which has no closed form, as the mean of ``mean_samples`` draws with fixed noise."""
        seed = torch.full((), _MEAN_SEED, dtype=torch.int64, device=self.u.device)
        return self.transport((self.mean_samples,), seed, 0).mean(0)

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """Draws of the base, transformed by the flow."""
        return self.push(self.base.transport(shape, seed, offset))[0]

    def push(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """f(z) and log |det df/dz|: (..., *event_shape) -> the same, and (..., *event_shape[:-1])."""
        log_det = z.new_zeros(())
        u, w, b = wide(self.u), wide(self.w), wide(self.b)
        projection = (u * w).sum(-1)  # not a dot product, which autocast would bring to half precision
        # Far out softplus rounds to zero, where the flow would end in a point: the floor keeps its inverse.
        allowed = softplus(projection + _SOFTPLUS_OF_ONE).clamp_min(8 * torch.finfo(w.dtype).eps) - 1.0
        square = (w * w).sum(-1).clamp_min(torch.finfo(w.dtype).tiny)
        u = u + ((allowed - projection) / square).unsqueeze(-1) * w
        for k in range(u.shape[0]):
            h = torch.tanh((z * w[k]).sum(-1) + b[k])
            log_det = log_det + kl.planar_log_det(1.0 - h * h, allowed[k])
            z = torch.addcmul(z, u[k], h.unsqueeze(-1))
        return z, log_det

    @checked
    def kl(self, prior: Prior) -> Tensor:
        """An unbiased estimate of KL(q || prior) from ``kl_samples`` new draws."""
        count, size = self.kl_samples, self.u[0].numel()
        z, log_det = self.push(self.base.transport((count,), draw_seed(device=self.u.device), 0))
        return kl.flow(
            self.base.half_log_det(),
            log_det.sum() / count,
            prior.quadratic(prior.centred(z)).sum() / count,
            prior.log_det(self.event_shape),
            size,
        )


def _normal(like: Tensor, steps: int) -> Tensor:
    return torch.randn(steps, *like.shape, dtype=like.dtype, device=like.device)
