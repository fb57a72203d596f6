"""A linear layer whose weight is a product of two Gaussian factors: variational inference of low rank."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.arguments import positive_number, whole_number
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw
from whvi.nn.mean_field import drawn_outputs
from whvi.nn.parts import check_features, check_floating, in_precision_of, start_variance, unit_pairs
from whvi.nn.vectors import BIAS, STREAM, bias_at, make_bias, shape_of, shared_vectors, value_at
from whvi.ops.bias import add_bias
from whvi.ops.precision import full_precision
from whvi.posterior import DiagonalGaussian, GaussianPrior, Posterior, Prior
from whvi.posterior.base import wide
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec

_LEFT, _RIGHT = 0, BIAS + 1  # streams of noise


class GaussianFactorsLinear(BayesianLayer):
    """y = A B^T x + b with independent Gaussian entries of A and B: 2 r (in + out) parameters, and those of b.

    The variational posterior of "Singular Bayesian Neural Networks" (Toure and Stephens, 2026, arXiv 2602.00387).

    Args:
        in_features, out_features: as for nn.Linear.
        rank: r, the columns of A and of B.
        bias: True for an independent Gaussian bias, False for none, or the name of a posterior ("point", ...).
        prior_variance: of the entries of W = A B^T; both factors have the same prior, N(0, sqrt(prior_variance / r)).
            That of the bias is N(0, 1).
        draws: "example", separate factors for each row, or "batch".
        weight_variance: initial variance of the entries of a draw of W; default 2 / in_features, for ReLU.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under one fixed draw, or S of them, forward(x) == x @ weight_at(draw).T + bias_value(draw). With a draw for
    each example B^T x is drawn, and given it A B^T x: outputs then have the joint distribution that the factors give
    them, as with ``weight_at(draw)``, but it is another draw.

    >>> layer = GaussianFactorsLinear(128, 128, rank=4)
    >>> layer(torch.randn(32, 128)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 128]), 2304)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rank: int,
        bias: bool | Spec = True,
        *,
        prior_variance: float = 1.0,
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(draws)
        self.in_features = whole_number("in_features", in_features)
        self.out_features = whole_number("out_features", out_features)
        self.rank = whole_number("rank", rank)
        check_floating(dtype)
        # (c A, B / c) is the same weight, so the factors share the variance evenly: var(W_ij) = r var(A_ik) var(B_jk),
        # of which the noise has its usual share.
        variance = (start_variance(weight_variance, 2.0 / in_features) / rank) ** 0.5
        mean_variance = variance / (1.0 + math.exp(2.0 * LOG_STD))

        def factor(*shape: int) -> DiagonalGaussian:
            mean = torch.randn(shape, device=device, dtype=dtype).mul_(mean_variance**0.5)
            return DiagonalGaussian(mean, LOG_STD + 0.5 * math.log(mean_variance))

        self.left = factor(out_features, rank)
        """A."""
        self.right = factor(rank, in_features)
        """B^T."""
        self.bias = make_bias(bias, out_features, self.left.mean.detach())
        self.prior = GaussianPrior((positive_number("prior_variance", prior_variance) / rank) ** 0.5)

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        lead, shape = tuple(x.shape[:-1]), () if draw is None else shape_of(draw)
        if draw is not None and shape and shape == lead:
            y = _drawn(_drawn(x, self.right, draw, _RIGHT), self.left, draw, _LEFT)
        else:
            rows = math.prod(lead[len(shape) :])  # that share a draw
            right, left = (in_precision_of(x, part) for part in self.factors(draw))
            y = (x.reshape(*shape, rows, self.in_features) @ right.mT @ left.mT).reshape(*lead, self.out_features)
        return add_bias(y, bias_at(self.bias, draw, len(lead) - len(shape)))

    def factors(self, draw: Draw | None) -> tuple[Tensor, Tensor]:
        """B^T and A at a draw, or their means."""
        return value_at(self.right, draw, _RIGHT), value_at(self.left, draw, _LEFT)

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """W at a draw, or its mean, which is that of A times that of B^T: (*draw.shape, out_features, in_features)."""
        right, left = self.factors(draw)
        return left @ right

    def vectors(self) -> dict[Posterior, int]:
        """The factors and the bias."""
        return shared_vectors({self.left: _LEFT, self.right: _RIGHT, self.bias: BIAS})

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """The factors and the bias."""
        return {self.left: self.prior, self.right: self.prior, **unit_pairs(self.bias)}

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        check_features(x, self.in_features)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.in_features}, {self.out_features}, rank={self.rank}, draws={self.draws!r}"


def _drawn(x: Tensor, matrix: DiagonalGaussian, draw: Draw, stream: int) -> Tensor:
    """M x with M drawn for each row of x: normal given x, and independent for the rows of M."""
    centre = linear(x, in_precision_of(x, wide(matrix.mean)))
    with full_precision(x):  # squares leave the range of float16
        variance = linear(wide(x).square(), (2.0 * wide(matrix.log_std)).exp())
    return drawn_outputs(centre, variance, draw.seed, stream * STREAM)
