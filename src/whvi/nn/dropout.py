"""Monte Carlo dropout as a Bayesian layer: an input that is dropped is a column of the weight that is zero."""

from math import inf, prod
from statistics import NormalDist

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.arguments import number, whole_number
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw
from whvi.nn.geometry import ConvGeometry, Convolutional, Size, geometry_of
from whvi.nn.parts import check_features, in_precision_of, start_variance
from whvi.nn.vectors import bias_at, make_bias, repeated, shape_of
from whvi.ops import normal
from whvi.ops.bias import add_bias
from whvi.posterior import GaussianPrior, Point, Prior, kl
from whvi.posterior.base import wide


class Dropout(BayesianLayer):
    """Bernoulli dropout on the inputs of a linear map, in training and in evaluation; off only in ``mean_mode``.

    An input is kept with probability 1 - p and divided by it, so that the mean of all draws is the map without
    dropout. One mask serves an example, or all inputs of a draw.

    Args:
        inputs: how many there are.
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
        """What the inputs are multiplied by, 0 or 1 / keep: (*draw.shape, 1 * axes, inputs)."""
        shape = shape_of(draw)
        noise = normal(draw.seed, 0, (*shape, *(1,) * (axes if shape else 0), self.inputs))
        return (noise >= self._threshold).to(dtype) / self.keep

    def drop(self, x: Tensor, draw: Draw | None) -> Tensor:
        """x with its inputs dropped, or as it is for the mean: (..., inputs, [H, W]) -> the same."""
        if draw is None or self.p == 0.0:
            return x
        mask = self.mask(draw, x.dtype, x.ndim - self.feature_axes - len(shape_of(draw)))
        return x * mask[(..., *(None,) * (self.feature_axes - 1))]

    def kl_term(self, weight: Tensor, bias: Tensor | None, keep: float) -> Tensor:
        """KL of Gal and Ghahramani (2016). Their weights are those that meet an input that is kept: W / keep."""
        bias_square = 0.0 if bias is None else kl.square(wide(bias))
        return kl.dropout(kl.square(wide(weight)) / keep**2, bias_square, keep, self.prior_variance)

    def extra_repr(self) -> str:
        """Probability and draws, for ``print``."""
        return f"p={self.p:g}, draws={self.draws!r}"


class MCDropout(Dropout):
    """y = W diag(z) x / (1 - p) + b with z_j ~ Bernoulli(1 - p): dropout before a linear layer or a convolution.

    Args:
        layer: nn.Linear, whose inputs are dropped one by one, or nn.Conv2d, whose input channels are dropped whole, so
            that a draw is a weight.
        p, prior_variance, draws: as for ``Dropout``.

    Shapes: as those of the layer, with any leading axes.

    Law: under a fixed draw, forward(x) == the layer with weight(draw) and bias_value(draw) at x; and, up to a constant,
    kl() == E[|weight(draw)|^2 + |bias|^2] / (2 prior_variance).

    >>> layer = MCDropout(nn.Linear(4, 2), p=0.5)
    >>> layer(torch.randn(3, 4)).shape
    torch.Size([3, 2])
    >>> zero_columns = (layer.weight(layer.draw((1000,))) == 0).all(-2).float().mean()
    >>> bool(abs(zero_columns - 0.5) < 0.05)
    True
    """

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

    def weight(self, draw: Draw | None = None) -> Tensor:
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
        """The bias, which is the same at all draws: (*draw.shape, outputs)."""
        return None if self.layer.bias is None else repeated(wide(self.layer.bias), draw, 1)

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """Of the layer that is wrapped: it counts once, however often it is wrapped."""
        return {self.layer: self.kl_term(self.layer.weight, self.layer.bias, self.keep)}

    def check(self, x: Tensor) -> None:
        """As the layer that is wrapped."""
        if self.geometry is None:
            check_features(x, self.inputs)
        else:
            self.geometry.check(x)


class LowRankMCDropoutConv2d(Convolutional, Dropout):
    """A convolution with few filters, dropout on their outputs, and a 1 x 1 convolution: W = U diag(z) V / (1 - p).

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, padding_mode: as for nn.Conv2d.
        rank: number of filters.
        groups: 1; others are refused.
        bias: of the output.
        p, prior_variance, draws: as for ``Dropout``; the filters have KL too, without dropout.
        weight_variance: of the entries of W at the start; default 2 / (weights that enter a filter).

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    Law: under a fixed draw, forward(x) == conv2d(x, weight(draw), bias_value(draw)).

    >>> layer = LowRankMCDropoutConv2d(16, 32, 3, rank=4)
    >>> layer(torch.randn(2, 16, 8, 8)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([2, 32, 6, 6]), 736)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        rank: int,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        p: float = 0.1,
        prior_variance: float = 1.0,
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if groups != 1:
            raise ArgumentError(f"groups must be 1, because the filters are shared by all outputs; got {groups}")
        out_channels = whole_number("out_channels", out_channels)
        super().__init__(whole_number("rank", rank), p, prior_variance, draws)
        self.geometry = ConvGeometry(in_channels, rank, kernel_size, stride, padding, dilation, 1, padding_mode)
        fan_in = prod(self.geometry.weight_shape[1:])
        # var(W) = rank * var(U) * var(V): U keeps the size of what it mixes.
        std = start_variance(weight_variance, 2.0 / fan_in) ** 0.5
        self.filters = Point(torch.randn(rank, fan_in, device=device, dtype=dtype).mul_(std))
        self.mixing = Point(torch.randn(out_channels, rank, device=device, dtype=dtype).mul_(rank**-0.5))
        self.bias = make_bias("point" if bias else False, out_channels, self.mixing.mean.detach())

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        filters, mixing = (in_precision_of(x, part.mean) for part in (self.filters, self.mixing))
        h = self.drop(self.geometry.convolve(x, filters.reshape(self.geometry.weight_shape)), draw)
        return add_bias(linear(h.movedim(-3, -1), mixing), bias_at(self.bias, draw)).movedim(-1, -3)

    @property
    def out_channels(self) -> int:
        """Of the output; the geometry is that of the filters."""
        return self.mixing.mean.shape[0]

    def weight(self, draw: Draw | None = None) -> Tensor:
        """U diag(z) V / keep at a draw, or U V: (*draw.shape, out_channels, in_channels, kernel height and width)."""
        filters, mixing = wide(self.filters.mean), wide(self.mixing.mean)
        if draw is not None:
            mixing = mixing * self.mask(draw, mixing.dtype, 1)
        product = mixing @ filters
        return product.reshape(*product.shape[:-1], *self.geometry.weight_shape[1:])

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """Of U with the bias, and of V, which has no dropout."""
        bias = None if self.bias is None else self.bias.mean
        return {
            self.mixing: self.kl_term(self.mixing.mean, bias, self.keep),
            self.filters: self.kl_term(self.filters.mean, None, 1.0),
        }

    def check(self, x: Tensor) -> None:
        """x must be (..., in_channels, H, W), no smaller than the kernel."""
        self.geometry.check(x)

    def extra_repr(self) -> str:
        """Sizes, probability and draws, for ``print``."""
        sizes = self.geometry.extra_repr().split(", ", 2)
        return f"{sizes[0]}, {self.out_channels}, rank={self.inputs}, {sizes[2]}, {super().extra_repr()}"
