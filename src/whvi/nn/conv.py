"""Convolutions with a Walsh-Hadamard posterior."""

from math import prod

import torch
from torch import Tensor

from whvi.annotations import checked
from whvi.nn.draws import Draw
from whvi.nn.geometry import ConvGeometry, Convolutional, Size
from whvi.nn.parts import in_precision_of
from whvi.nn.structured import StructuredLayer
from whvi.nn.vectors import bias_at
from whvi.ops.bias import add_bias
from whvi.posterior import Prior
from whvi.posterior.spec import Spec
from whvi.structure import make_plan

_MANY = 4
"""From this number of patches for each filter of a group, building the filters is faster (measured)."""


class WHVIConv2d(Convolutional, StructuredLayer):
    """A convolution whose filters, as a matrix (out_channels, in_channels * kernel area), are W = A diag(g) B.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode: as for nn.Conv2d.
        bias and the others: as for ``WHVILinear``. Each group has its own scales; ``share_g`` also spans groups.

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    With a draw for each example the filters are applied to the patches of the image without being built, unless there
    are far more patches than filters. Then, and with one draw for many images, they are built and passed to torch's
    convolution.

    Law: under a fixed draw, forward(x) == conv2d(x, weight_at(draw), bias_value(draw)).

    >>> layer = WHVIConv2d(3, 16, 3, padding="same")
    >>> layer(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 16, 8, 8])
    """

    _geometry: type[ConvGeometry] = ConvGeometry

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool | Spec = True,
        padding_mode: str = "zeros",
        *,
        structure: str = "SHGHS",
        posterior: Spec = "diagonal",
        scales: Spec = "optimised",
        prior_variance: float | Prior = 1.0,
        share_g: bool = True,
        terms: int = 1,
        layout: str = "stack",
        block: int | None = None,
        pad_to: str = "order",
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        geometry = self._geometry(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        first, *others = geometry.weight_shape
        super().__init__(
            make_plan(layout, prod(others), first // groups, terms, block=block, pad_to=pad_to),
            groups,
            out_channels,
            bias,
            structure=structure,
            posterior=posterior,
            scales=scales,
            prior_variance=prior_variance,
            share_g=share_g,
            draws=draws,
            weight_variance=weight_variance,
            device=device,
            dtype=dtype,
        )
        self.geometry = geometry

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        if draw is None or not draw.shape:
            bias = self.bias_value(draw)
            weight = in_precision_of(x, self.filters(draw))
            return self.geometry.convolve(x, weight, None if bias is None else in_precision_of(x, bias))
        axes = x.ndim - 3 - len(draw.shape)
        if axes or self._pays_to_build(x):
            weight = in_precision_of(x, self.filters(draw))
            y = self.geometry.convolve_each(x.flatten(0, -4 - axes), weight.flatten(0, -5)).unflatten(0, draw.shape)
            y = y.movedim(-3, -1)
            if x.movedim(-3, -1).is_contiguous():  # images with their channels last keep them there
                y = y.contiguous()
            return add_bias(y, bias_at(self.bias, draw, axes + 2)).movedim(-1, -3)
        patches = self.geometry.patches(x)
        if self.groups == 1:
            patches = patches.squeeze(-3)
        y = self.matrix(draw, 0, 1).apply(self.g_at(draw, 0, 1), patches)
        if self.groups == 1:
            y = y.unsqueeze(-3)
        y = self.geometry.fold_output(y, *x.shape[-2:])
        return add_bias(y.movedim(-3, -1), bias_at(self.bias, draw, 2)).movedim(-1, -3)

    def _pays_to_build(self, x: Tensor) -> bool:
        """Whether transforming the filters of an image and multiplying is faster than transforming its patches."""
        patches = prod(self.geometry.output_size(*x.shape[-2:]))
        return x.numel() > 0 and patches * self.groups >= _MANY * self.out_channels

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The filters at a draw, or their mean: (*draw.shape, out_channels, in_channels / groups, kh, kw)."""
        return self.filters(draw)

    def filters(self, draw: Draw | None) -> Tensor:
        """Like ``weight_at``, but always with all four axes."""
        lead = draw.shape if draw is not None and draw.shape else ()
        return self.dense(draw).reshape(*lead, *self.geometry.weight_shape)

    def check(self, x: Tensor) -> None:
        """The third axis from the end must be ``in_channels``, and the kernel must fit."""
        self.geometry.check(x)
        super().check(x)

    def extra_repr(self) -> str:
        """Geometry, structure and draws, for ``print``."""
        return f"{self.geometry.extra_repr()}, {super().extra_repr()}"
