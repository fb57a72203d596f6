"""Monte Carlo dropout as a Bayesian layer: a dropped input is a zero column of the weight."""

from math import inf
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.annotations import checked_but
from whvi.arguments import number
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw
from whvi.nn.geometry import ConvGeometry, geometry_of
from whvi.nn.moments import Stage, rows_only
from whvi.nn.parts import check_features, in_precision_of
from whvi.nn.vectors import repeated, shape_of
from whvi.ops import normal
from whvi.posterior import GaussianPrior, Prior, kl
from whvi.posterior.base import wide


class Dropout(BayesianLayer):
    """Bernoulli dropout on the inputs of a linear layer, in training and in evaluation; off only in ``mean_mode``.

    An input is kept with probability 1 - p and divided by it, so that the mean over draws is the layer without
    dropout. Each example, or each draw, has one mask.

    Args:
        inputs: their number.
        p: probability of dropping an input, 0 <= p < 1.
        prior_variance: of weights and bias.
        draws: "example" or "batch".
    """

    def __init__(self, inputs: int, p: float, prior_variance: float, draws: str) -> None:
        super().__init__(draws)
        self.inputs, self.p = inputs, number("p", p)
        if not 0.0 <= self.p < 1.0:
            raise ArgumentError(f"p must be at least 0 and less than 1, got {p}")
        self.keep = 1.0 - self.p
        self.prior_variance = float(GaussianPrior(prior_variance).variance)
        self._threshold = (
            NormalDist().inv_cdf(self.p) if self.p > 0.0 else -inf
        )  # a normal is below it with probability p

    def mask(self, draw: Draw, dtype: torch.dtype, axes: int = 0) -> Tensor:
        """The factor of each input, 0 or 1 / keep: (*draw.shape, 1 * axes, inputs)."""
        shape = shape_of(draw)
        noise = normal(draw.seed, 0, (*shape, *(1,) * (axes if shape else 0), self.inputs))
        return (noise >= self._threshold).to(dtype) / self.keep

    def drop(self, x: Tensor, draw: Draw | None) -> Tensor:
        """x with inputs dropped, or unchanged for the mean: (..., inputs, [H, W]) -> the same."""
        if draw is None or self.p == 0.0:
            return x
        mask = self.mask(draw, x.dtype, x.ndim - self.feature_axes - len(shape_of(draw)))
        return x * mask[(..., *(None,) * (self.feature_axes - 1))]

    def kl_term(self, weight: Tensor, bias: Tensor | None, keep: float) -> Tensor:
        """KL of Gal and Ghahramani (2016). Their weights are those of kept inputs: W / keep."""
        bias_square = 0.0 if bias is None else kl.square(wide(bias))
        return kl.dropout(kl.square(wide(weight)) / keep**2, bias_square, keep, self.prior_variance)

    def extra_repr(self) -> str:
        """Probability and draws, for ``print``."""
        return f"p={self.p:g}, draws={self.draws!r}"


class MCDropout(Dropout):
    """y = W diag(z) x / (1 - p) + b with z_j ~ Bernoulli(1 - p): dropout before a linear layer or a convolution.

    Args:
        layer: nn.Linear, where single inputs are dropped, or nn.Conv2d, where whole input channels are dropped, so
            that a draw is a weight.
        p, prior_variance, draws: as for ``Dropout``.

    Shapes: as those of the layer, with any leading axes.

    Law: under a fixed draw, forward(x) == the layer with weight_at(draw) and bias_value(draw) at x; and, up to a
    constant, kl() == E[|weight_at(draw)|^2 + |bias|^2] / (2 prior_variance).

    >>> layer = MCDropout(nn.Linear(4, 2), p=0.5)
    >>> layer(torch.randn(3, 4)).shape
    torch.Size([3, 2])
    >>> zero_columns = (layer.weight_at(layer.draw((1000,))) == 0).all(-2).float().mean()
    >>> bool(abs(zero_columns - 0.5) < 0.05)
    True
    """

    @checked_but("layer", "prior_variance")
    def __init__(
        self,
        layer: nn.Linear | nn.Conv2d,
        p: float = 0.1,
        *,
        prior_variance: float = 1.0,
        draws: str = "example",
    ) -> None:
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            raise InputTypeError(f"layer must be an nn.Linear or an nn.Conv2d, got {type(layer).__name__}")
        geometry = ConvGeometry(**geometry_of(layer)) if isinstance(layer, nn.Conv2d) else None
        inputs = layer.in_channels if isinstance(layer, nn.Conv2d) else layer.in_features
        super().__init__(inputs, p, prior_variance, draws)
        self.layer = layer
        self.geometry = geometry
        self.feature_axes = 1 if geometry is None else 3

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        weight, bias = in_precision_of(x, self.layer.weight), self.layer.bias
        if bias is not None:
            bias = in_precision_of(x, bias)
        x = self.drop(x, draw)
        return linear(x, weight, bias) if self.geometry is None else self.geometry.convolve(x, weight, bias)

    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        """Exact: a dropped input has the variance (v + m^2) / keep - m^2. For linear layers."""
        if self.geometry is not None:
            return super().moments(mean, variance)
        rows_only(mean)
        weight = wide(self.layer.weight)
        known = torch.zeros_like(mean) if variance is None else variance
        more = (known + mean.square()) * (1.0 / self.keep - 1.0)
        y = mean @ weight.mT if self.layer.bias is None else mean @ weight.mT + wide(self.layer.bias)

        def back(u: Tensor) -> tuple[Tensor, Tensor]:
            u = u @ weight
            return u, (u.square() * more).sum(-1)

        return Stage(y, (known + more) @ weight.square().mT, back)

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """W diag(z) / keep at a draw, or W: (*draw.shape, *layer.weight.shape)."""
        weight = wide(self.layer.weight)
        if draw is None:
            return weight
        groups = 1 if self.geometry is None else self.geometry.groups
        outputs, inputs = weight.shape[:2]
        shape = shape_of(draw)
        mask = self.mask(draw, weight.dtype).reshape(*shape, groups, 1, inputs, 1)
        return (weight.reshape(groups, outputs // groups, inputs, -1) * mask).reshape(*shape, *weight.shape)

    def bias_value(self, draw: Draw | None = None) -> Tensor | None:
        """The bias, equal for all draws: (*draw.shape, outputs)."""
        return None if self.layer.bias is None else repeated(wide(self.layer.bias), draw, 1)

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """Of the wrapped layer: it counts once, however often it is wrapped."""
        return {self.layer: self.kl_term(self.layer.weight, self.layer.bias, self.keep)}

    def check(self, x: Tensor) -> None:
        """Checked by the wrapped layer."""
        if self.geometry is None:
            check_features(x, self.inputs)
        else:
            self.geometry.check(x)
