"""A convolution whose filters are a matrix-variate Gaussian."""

import math

import torch
from torch import Tensor

from whvi.nn.draws import Draw
from whvi.nn.geometry import ConvGeometry, Convolutional, Size
from whvi.nn.parts import in_precision_of
from whvi.ops.precision import full_precision
from whvi.posterior.base import standard_normal, wide
from whvi_paper.baselines.matrix_gaussian import MatrixGaussian


class MatrixGaussianConv2d(Convolutional, MatrixGaussian):
    """A convolution whose filters and bias, as a matrix (out_channels, in_channels * kernel area + 1), are Gaussian.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode: as for nn.Conv2d.
        bias, prior_variance, draws: as for ``MatrixGaussianLinear``. "example" draws the outputs of each position by
            their distribution given what the kernel sees there, independently of other positions, as mean field does.
        weight_variance: initial variance of the means; default 1 / (weights that enter an output).

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    Law: under one fixed draw, or S of them, forward(x) == conv2d(x, weight_at(draw), bias_value(draw)); with a draw for
    each example each output has the mean and the variance that the kernel gives it.

    >>> layer = MatrixGaussianConv2d(3, 8, 3, padding="same")
    >>> layer(torch.randn(32, 3, 10, 10)).shape, layer.mean.shape
    (torch.Size([32, 8, 10, 10]), torch.Size([8, 28]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        prior_variance: float = 1.0,
        draws: str = "batch",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        geometry = ConvGeometry(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode)
        super().__init__(groups, geometry.weight_shape, bias, prior_variance, draws, weight_variance, device, dtype)
        self.geometry = geometry

    def apply_one(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(..., C, H, W) and a kernel -> (..., out, H', W')."""
        return self.geometry.convolve(x, weight, bias)

    def apply_several(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(S, ..., C, H, W) and S kernels -> (S, ..., out, H', W')."""
        y = self.geometry.convolve_each(x, weight)
        return y if bias is None else y + bias[(slice(None), *(None,) * (x.ndim - 4), ..., None, None)]

    def apply_each(self, x: Tensor, draw: Draw) -> Tensor:
        """A normal vector for each position in place of a matrix: (..., C, H, W) -> (..., out, H', W')."""
        centre = self.apply_one(x, *self.split(in_precision_of(x, self.matrix())))
        with full_precision(x):
            length = torch.linalg.vector_norm(self._seen(wide(x)), dim=-3, keepdim=True)
            noise = standard_normal(x, tuple(centre.shape), draw.seed, 0).unflatten(-3, (self.groups, -1))
            spread: Tensor = (wide(self.output_root) @ noise.flatten(-2)).reshape(noise.shape) * length
        y: Tensor = centre + spread.flatten(-4, -3).to(centre.dtype)
        return y

    def _seen(self, x: Tensor) -> Tensor:
        """R^T a for what the kernel sees at each position, as a convolution: (..., groups, columns, H', W')."""
        rows = wide(self.input_root).mT.flatten(0, 1)
        inputs = math.prod(self.weight_shape[1:])
        weight = rows[:, :inputs].reshape(-1, *self.weight_shape[1:])
        seen = self.geometry.convolve(x, weight, rows[:, inputs] if self.has_bias else None)
        parts: Tensor = seen.unflatten(-3, (self.groups, -1))
        return parts

    def input_rows(self, x: Tensor) -> Tensor:
        """The patches of all images: (..., C, H, W) -> (groups, rows, columns)."""
        return self.with_ones(self.geometry.patches(x).movedim(-3, 0).flatten(1, -2))

    def output_rows(self, y: Tensor) -> Tensor:
        """(..., out, H', W') -> (groups, rows, out / groups)."""
        channels_last: Tensor = y.unflatten(-3, (self.groups, -1)).movedim(-4, 0).movedim(-3, -1)
        return channels_last.flatten(1, -2)

    def check(self, x: Tensor) -> None:
        """x must be (..., in_channels, H, W), at least as large as the kernel."""
        self.geometry.check(x)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.geometry.extra_repr()}, draws={self.draws!r}"
