"""MC dropout on low-rank filters, which the paper compares with WHVI filters with as many parameters."""

from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.nn.draws import Draw
from whvi.nn.dropout import Dropout
from whvi.nn.geometry import ConvGeometry, Convolutional, Size
from whvi.nn.parts import in_precision_of, start_variance
from whvi.nn.vectors import bias_at, make_bias
from whvi.ops.bias import add_bias
from whvi.posterior import Point, Prior
from whvi.posterior.base import wide


class LowRankMCDropoutConv2d(Convolutional, Dropout):
    """A convolution with few filters, dropout on their outputs, and a 1 x 1 convolution: W = U diag(z) V / (1 - p).

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, padding_mode: as for nn.Conv2d.
        rank: number of filters.
        groups: must be 1.
        bias: of the output.
        p, prior_variance, draws: as for ``Dropout``; the filters have KL too, without dropout.
        weight_variance: initial variance of the entries of W; default 2 / (weights that enter a filter).

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    Law: under a fixed draw, forward(x) == conv2d(x, weight_at(draw), bias_value(draw)).

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

    def weight_at(self, draw: Draw | None = None) -> Tensor:
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
        """x must be (..., in_channels, H, W), at least as large as the kernel."""
        self.geometry.check(x)

    def extra_repr(self) -> str:
        """Sizes, probability and draws, for ``print``."""
        sizes = self.geometry.extra_repr().split(", ", 2)
        return f"{sizes[0]}, {self.out_channels}, rank={self.inputs}, {sizes[2]}, {super().extra_repr()}"
