"""A last layer that is integrated out: given the features before it, its weights are Gaussian and need no sampler.

Of D features h(x), weights and a bias from N(0, 1) and noise of known variance make N targets

    y ~ N(0, K),    K = H H^T + variance I,    H = (h, 1), (N, D + 1).

A sampler of this distribution moves in the hidden weights alone, and avoids what makes the joint posterior stiff:
data pin the function, so the last layer has to follow each change of the features. Afterwards it is drawn, exactly.
"""

from math import log, pi

import torch
from torch import Tensor

from whvi.errors import UnsupportedError
from whvi.likelihoods import Gaussian


class Marginal(Gaussian):
    """p(y | features) without the last layer: for rows that come all at once, since they depend on each other.

    Args:
        width: D, the number of features.
        variance: of the noise, known.

    >>> Marginal(2, 1.0).log_prob(torch.zeros(1, 2), torch.zeros(1, 1))  # log N(0; 0, 1 + 1)
    tensor([-1.2655])
    """

    def __init__(self, width: int, variance: float) -> None:
        super().__init__(variance=variance, learned=False)
        self.width = width

    @property
    def features(self) -> int:
        """D."""
        return self.width

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """log p(y_i | y_1 ... y_{i-1}): (..., N, D), (N, 1) -> (..., N).

        Law: the sum over rows is log N(y; 0, K). With K = L L^T each row is a normal of L^-1 y, in units of L_ii.
        """
        known = with_one(f)
        noise = self.log_variance.exp().to(f.dtype) * torch.eye(f.shape[-2], dtype=f.dtype, device=f.device)
        factor = torch.linalg.cholesky(known @ known.mT + noise)
        white = torch.linalg.solve_triangular(factor, y.to(f.dtype), upper=False)
        value: Tensor = -0.5 * (white.squeeze(-1).square() + log(2.0 * pi)) - factor.diagonal(dim1=-2, dim2=-1).log()
        return value

    def mean(self, f: Tensor) -> Tensor:
        """Not without the last layer."""
        raise UnsupportedError(
            "features alone predict nothing; draw last layers with functions(features, y, elsewhere)"
        )

    @torch.no_grad()
    def functions(self, features: Tensor, y: Tensor, elsewhere: Tensor) -> Tensor:
        """Draw a last layer for each of S networks, given N targets; its values at G other points.

        Law: N(m, P^-1) with P = H^T H / variance + I and P m = H^T y / variance.

        Shapes: (S, N, D), (N, 1), (S, G, D) -> (S, G).
        """
        known, variance = with_one(features).double(), self.log_variance.double().exp()
        precision = known.mT @ known / variance + torch.eye(known.shape[-1], dtype=torch.float64)
        factor = torch.linalg.cholesky(precision)
        mean = torch.cholesky_solve(known.mT @ y.double() / variance, factor)
        spread = torch.linalg.solve_triangular(factor.mT, torch.randn_like(mean), upper=True)
        values: Tensor = with_one(elsewhere).double() @ (mean + spread)
        return values.squeeze(-1).to(features.dtype)


def with_one(features: Tensor) -> Tensor:
    """A feature more, for the bias: (..., D) -> (..., D + 1).

    >>> with_one(torch.zeros(2))
    tensor([0., 0., 1.])
    """
    return torch.cat([features, torch.ones_like(features[..., :1])], -1)
