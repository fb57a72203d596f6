"""Convolutions along one axis: those of images that are one pixel high."""

from typing import Any

from torch import Tensor

from whvi.nn.conv import WHVIConv2d
from whvi.nn.draws import Draw
from whvi.posterior.spec import Spec

Width = int | tuple[int]


class WHVIConv1d(WHVIConv2d):
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

    feature_axes = 2

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

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        return super().evaluate(x.unsqueeze(-2), draw).squeeze(-2)

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The filters at a draw, or their mean: (*draw.shape, out_channels, in_channels / groups, kernel)."""
        return self.filters(draw).squeeze(-2)

    def check(self, x: Tensor) -> None:
        """The second axis from the end must be ``in_channels``, and the kernel must fit."""
        super().check(x.unsqueeze(-2) if x.ndim else x)


def _single(size: Width) -> int:
    """A size along the one axis, as torch takes it."""
    return size[0] if isinstance(size, tuple) else size
