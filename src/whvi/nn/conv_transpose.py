"""Transposed convolutions with a Walsh-Hadamard posterior."""

from typing import Any

from torch import Tensor

from whvi.annotations import checked_but
from whvi.nn.conv import WHVIConv2d
from whvi.nn.geometry import Size, TransposedGeometry
from whvi.posterior.spec import Spec


class WHVIConvTranspose2d(WHVIConv2d):
    """A transposed convolution whose filters, as a matrix (in_channels, out_channels * kernel area), are A diag(g) B.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, dilation, padding_mode: as for
            nn.ConvTranspose2d.
        bias, options: as for ``WHVILinear``, except the default of ``weight_variance``: 2 over the mean number of
            weights that make up an output.

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    The filters are built for each draw and passed to torch.

    Law: under a fixed draw, forward(x) == conv_transpose2d(x, weight_at(draw), bias_value(draw)).

    >>> import torch
    >>> layer = WHVIConvTranspose2d(16, 3, 2, stride=2)
    >>> layer(torch.randn(2, 16, 8, 8)).shape
    torch.Size([2, 3, 16, 16])
    """

    _geometry = TransposedGeometry

    @checked_but("padding")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool | Spec = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        **options: Any,
    ) -> None:
        sizes = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        geometry = TransposedGeometry(*sizes, padding_mode, output_padding=output_padding)
        if options.get("weight_variance") is None:
            # A pixel of the output meets every stride-th element of the kernel, and one at the least.
            each = [max(1.0, side / step) for side, step in zip(geometry.kernel_size, geometry.stride, strict=True)]
            options["weight_variance"] = 2.0 / (in_channels // groups * each[0] * each[1])
        WHVIConv2d.__init__(self, *sizes, bias, padding_mode, **options)
        self.geometry = geometry

    def _pays_to_build(self, x: Tensor) -> bool:
        """Always: there are no patches."""
        return True
