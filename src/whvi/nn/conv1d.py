"""Convolutions along one axis, computed as those of images that are one pixel high."""

from typing import Any

from torch import Tensor

from whvi.annotations import checked, checked_but
from whvi.nn.conv import WHVIConv2d
from whvi.nn.conv_transpose import WHVIConvTranspose2d
from whvi.nn.draws import Draw
from whvi.posterior.spec import Spec

Width = int | tuple[int]


class OneAxis(WHVIConv2d):
    """Common code of convolutions along one axis: those of images that are one pixel high."""

    feature_axes = 2

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Along the axis."""
        return self.geometry.kernel_size[1:]

    @property
    def stride(self) -> tuple[int, ...]:
        """Along the axis."""
        return self.geometry.stride[1:]

    @property
    def padding(self) -> tuple[int, ...] | str:
        """On both sides; or "same" or "valid"."""
        padding = self.geometry.padding
        return padding if isinstance(padding, str) else padding[1:]

    @property
    def dilation(self) -> tuple[int, ...]:
        """Along the axis."""
        return self.geometry.dilation[1:]

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        return super().evaluate(x.unsqueeze(-2), draw).squeeze(-2)

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The filters at a draw, or their mean: (*draw.shape, *shape of torch's weight)."""
        return self.filters(draw).squeeze(-2)

    def check(self, x: Tensor) -> None:
        """The second axis from the end must be ``in_channels``, and the output must not be empty."""
        super().check(x.unsqueeze(-2) if x.ndim else x)


class WHVIConv1d(OneAxis):
    """A convolution along one axis; its filters, as a matrix (out_channels, in_channels * kernel), are W = A diag(g) B.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode: as for nn.Conv1d.
        bias, options: as for ``WHVILinear``.

    Shapes: (..., in_channels, L) -> (..., out_channels, L').

    Law: under a fixed draw, forward(x) == conv1d(x, weight_at(draw), bias_value(draw)).

    >>> import torch
    >>> WHVIConv1d(3, 16, 5, padding="same")(torch.randn(2, 3, 40)).shape
    torch.Size([2, 16, 40])
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Width,
        stride: Width = 1,
        padding: Width | str = 0,
        dilation: Width = 1,
        groups: int = 1,
        bias: bool | Spec = True,
        padding_mode: str = "zeros",
        **options: Any,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            (1, _single(kernel_size)),
            (1, _single(stride)),
            padding if isinstance(padding, str) else (0, _single(padding)),
            (1, _single(dilation)),
            groups,
            bias,
            padding_mode,
            **options,
        )


class WHVIConvTranspose1d(OneAxis, WHVIConvTranspose2d):
    """A transposed convolution along one axis; ``WHVIConvTranspose2d`` has two axes.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, dilation, padding_mode: as for
            nn.ConvTranspose1d.
        bias, options: as for ``WHVILinear``.

    Shapes: (..., in_channels, L) -> (..., out_channels, L').

    Law: under a fixed draw, forward(x) == conv_transpose1d(x, weight_at(draw), bias_value(draw)).

    >>> import torch
    >>> WHVIConvTranspose1d(16, 3, 4, stride=4)(torch.randn(2, 16, 10)).shape
    torch.Size([2, 3, 40])
    """

    @checked_but("padding")
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Width,
        stride: Width = 1,
        padding: Width = 0,
        output_padding: Width = 0,
        groups: int = 1,
        bias: bool | Spec = True,
        dilation: Width = 1,
        padding_mode: str = "zeros",
        **options: Any,
    ) -> None:
        WHVIConvTranspose2d.__init__(
            self,
            in_channels,
            out_channels,
            (1, _single(kernel_size)),
            (1, _single(stride)),
            (0, _single(padding)),
            (0, _single(output_padding)),
            groups,
            bias,
            (1, _single(dilation)),
            padding_mode,
            **options,
        )


def _single(size: Width) -> int:
    """A size along the one axis, as in torch."""
    return size[0] if isinstance(size, tuple) else size
