"""A linear layer whose weight is a product of small matrices: the tensor factorisation that the paper compares with."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.arguments import whole_number
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw
from whvi.nn.parts import (
    check_features,
    check_floating,
    in_precision_of,
    plain_prior,
    start_variance,
    unit_pairs,
)
from whvi.nn.vectors import BIAS, bias_at, make_bias, shape_of, shared_vectors, value_at
from whvi.ops.bias import add_bias
from whvi.posterior import DiagonalGaussian, Point, Posterior, Prior
from whvi.posterior.base import wide
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec

_INNER = 0  # stream of noise


class TensorFactorisedLinear(BayesianLayer):
    """y = W x + b with W = W_1 W_2 ... W_K: cores of rank R, the outer two optimised, the others Gaussian.

    With the default R = log2 D and K = D / (log2 D)^2 the K - 2 inner cores have about as many parameters and take
    about as much time as a Walsh-Hadamard layer of size D, the next power of two of the larger side.

    Args:
        in_features, out_features: as for nn.Linear.
        bias: True for an independent Gaussian bias, False for none, or the name of a posterior ("point", ...).
        rank: R; W_1 is out_features x R, W_K is R x in_features, the others are R x R.
        cores: K, at least 3.
        prior_variance: of the elements of the inner cores, or a ``Prior``; that of the bias is N(0, 1).
        draws: "example" or "batch".
        weight_variance: initial variance of the entries of a draw of W; default 2 / in_features, for ReLU.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under a fixed draw, forward(x) == x @ weight_at(draw).T + bias_value(draw).

    >>> layer = TensorFactorisedLinear(256, 256)
    >>> layer
    TensorFactorisedLinear(
      256, 256, rank=8, cores=4, draws='example'
      (first): Point(event_shape=(256, 8))
      (inner): DiagonalGaussian(event_shape=(2, 8, 8))
      (last): Point(event_shape=(8, 256))
      (bias): DiagonalGaussian(event_shape=(256,))
      (prior): GaussianPrior(variance=1)
    )
    >>> layer(torch.randn(32, 256)).shape
    torch.Size([32, 256])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool | Spec = True,
        *,
        rank: int | None = None,
        cores: int | None = None,
        prior_variance: float | Prior = 1.0,
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(draws)
        self.in_features = whole_number("in_features", in_features)
        self.out_features = whole_number("out_features", out_features)
        levels = max((max(in_features, out_features) - 1).bit_length(), 1)  # log2 D
        self.rank = rank = max(2, levels) if rank is None else whole_number("rank", rank)
        default = max(3, round(2**levels / levels**2))
        self.cores = cores = default if cores is None else whole_number("cores", cores, least=3)
        check_floating(dtype)

        def normal(variance: float, *shape: int) -> Tensor:
            return torch.randn(shape, device=device, dtype=dtype).mul_(variance**0.5)

        # The inner cores start orthogonal up to noise, shrunk so that a draw keeps the size of a vector: a product of
        # many random matrices would not. Then var(W_ij) = R * var(W_1) * var(W_K).
        variance = start_variance(weight_variance, 2.0 / in_features)
        shrink = (1.0 + math.exp(2.0 * LOG_STD)) ** -0.5
        orthogonal = torch.linalg.qr(torch.randn(cores - 2, rank, rank, device=device)).Q * shrink
        self.first = Point(normal(variance * in_features / rank, out_features, rank))
        self.inner = DiagonalGaussian(
            orthogonal.to(self.first.mean.dtype), LOG_STD + math.log(shrink) - 0.5 * math.log(rank)
        )
        self.last = Point(normal(1.0 / in_features, rank, in_features))
        self.bias = make_bias(bias, out_features, self.first.mean.detach())
        self.prior = plain_prior(prior_variance, self.first.mean)

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        shape = () if draw is None else shape_of(draw)
        inner = in_precision_of(x, value_at(self.inner, draw, _INNER))
        first, last = (in_precision_of(x, core.mean) for core in (self.first, self.last))
        lead = x.shape[:-1]
        rows = math.prod(lead[len(shape) :])  # that share a draw
        h = linear(x, last).reshape(*shape, rows, self.rank)
        for core in reversed(inner.unbind(-3)):
            h = h @ core.mT
        y = linear(h.reshape(*lead, self.rank), first)
        return add_bias(y, bias_at(self.bias, draw, len(lead) - len(shape)))

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """W at a draw, or W of the mean cores, which is the mean of W: (*draw.shape, out_features, in_features)."""
        product = wide(self.first.mean)
        for core in value_at(self.inner, draw, _INNER).unbind(-3):
            product = product @ core
        return product @ wide(self.last.mean)

    def vectors(self) -> dict[Posterior, int]:
        """The inner cores and the bias."""
        return shared_vectors({self.inner: _INNER, self.bias: BIAS})

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """The inner cores and the bias."""
        return {self.inner: self.prior, **unit_pairs(self.bias)}

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        check_features(x, self.in_features)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.in_features}, {self.out_features}, rank={self.rank}, cores={self.cores}, draws={self.draws!r}"
