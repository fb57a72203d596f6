"""The settings of a two-dimensional convolution: sizes, strides, padding, groups."""

import warnings
from math import prod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError, ShapeError

Pair = tuple[int, int]
Size = int | Pair


class ConvGeometry:
    """How a convolution reads its input: plain numbers, so a layer that has one gets no additional state.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode: as for nn.Conv2d.

    They are attributes of the same names, as pairs where torch has pairs; ``padding`` may also be "same" or "valid".

    Law: fold_output(patches(x) @ weight.reshape(groups, out_channels // groups, -1).mT, H, W) == convolve(x, weight).

    >>> geometry = ConvGeometry(4, 6, 3, stride=2, padding=1, groups=2)
    >>> geometry.weight_shape, geometry.output_size(8, 9)
    ((6, 2, 3, 3), (4, 5))
    >>> geometry.patches(torch.randn(5, 4, 8, 9)).shape
    torch.Size([5, 2, 20, 18])
    """

    padding: Pair | str
    _too_small = "with its padding it is smaller than the kernel"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
    ) -> None:
        self.in_channels = whole_number("in_channels", in_channels)
        self.out_channels = whole_number("out_channels", out_channels)
        self.kernel_size = _pair("kernel_size", kernel_size)
        self.stride = _pair("stride", stride)
        self.padding = padding if isinstance(padding, str) else _pair("padding", padding, least=0)
        self.dilation = _pair("dilation", dilation)
        self.groups = whole_number("groups", groups)
        self.padding_mode = padding_mode
        try:
            with warnings.catch_warnings():  # such as torch's hint that "same" and an even kernel may copy the input
                warnings.simplefilter("ignore")
                mode: Any = padding_mode
                sizes = (self.kernel_size, self.stride, self.padding, self.dilation)
                nn.Conv2d(in_channels, out_channels, *sizes, groups, False, mode, device="meta")
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"this convolution does not exist in torch: {error}") from None
        (top, bottom), (left, right) = self._around(0), self._around(1)
        self._margins = (left, right, top, bottom)

    def _around(self, axis: int) -> Pair:
        """Padding before and after, along the height (0) or the width (1)."""
        if isinstance(self.padding, tuple):
            return self.padding[axis], self.padding[axis]
        total = self.dilation[axis] * (self.kernel_size[axis] - 1) if self.padding == "same" else 0
        return total // 2, total - total // 2

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(out_channels, in_channels / groups, kernel height, kernel width)."""
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an input of that height and width."""
        left, right, top, bottom = self._margins
        rows, columns = (
            (size - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, dilation in zip(
                (height + top + bottom, width + left + right), self.kernel_size, self.stride, self.dilation, strict=True
            )
        )
        return rows, columns

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The convolution: (..., in_channels, H, W) -> (..., out_channels, H', W')."""
        y = self._convolve(x.reshape(prod(x.shape[:-3]), *x.shape[-3:]), weight, bias, self.groups)
        return y.reshape(*x.shape[:-3], *y.shape[1:])

    def convolve_each(self, x: Tensor, weight: Tensor) -> Tensor:
        """S kernels, each for a chunk of x: (S, ..., in_channels, H, W), (S, *weight_shape) -> (S, ..., out, H', W').

        As one convolution with S times the groups.
        """
        count, lead = x.shape[0], x.shape[1:-3]
        if not count:  # which torch refuses as a number of groups
            return x.new_empty((0, *lead, self.out_channels, *self.output_size(*x.shape[-2:])))
        parts = x.reshape(count, prod(lead), *x.shape[-3:]).transpose(0, 1).flatten(1, 2)
        y = self._convolve(parts, weight.flatten(0, 1), None, count * self.groups)
        y = y.reshape(prod(lead), count, self.out_channels, *y.shape[2:]).transpose(0, 1)
        return y.reshape(count, *lead, *y.shape[2:])

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = self._pad(x), (0, 0)
        return functional.conv2d(x, weight, bias, self.stride, padding, self.dilation, groups)

    def patches(self, x: Tensor) -> Tensor:
        """The input of the kernel at each of the L = H' W' positions of the output, for each group.

        (..., in_channels, H, W) -> (..., groups, L, in_channels / groups * kernel height * kernel width).
        """
        lead, (rows, columns) = x.shape[:-3], self.output_size(*x.shape[-2:])
        x = self._pad(x.reshape(prod(lead), *x.shape[-3:])).unflatten(1, (self.groups, -1)).movedim(2, 4)
        # One shifted view of x for each element of the kernel, and one copy that lays them side by side; unlike
        # F.unfold this needs no transposed copy after it, and unlike Tensor.unfold its gradient has a rule for vmap.
        across = [_reach(j * self.dilation[1], columns, self.stride[1]) for j in range(self.kernel_size[1])]
        down = [_reach(i * self.dilation[0], rows, self.stride[0]) for i in range(self.kernel_size[0])]
        views = [x[:, :, i, j] for i in down for j in across]  # each (batch, groups, H', W', channels)
        stacked = torch.stack(views, -1) if len(views) > 1 else views[0].unsqueeze(-1)
        return stacked.reshape(*lead, self.groups, rows * columns, prod(self.weight_shape[1:]))

    def fold_output(self, y: Tensor, height: int, width: int) -> Tensor:
        """Outputs at the positions, back in the plane: (..., groups, L, out / groups) -> (..., out, H', W').

        Args:
            y: one row for each row of ``patches``.
            height, width: of the input.
        """
        y = y.mT.flatten(-3, -2)
        return y.reshape(*y.shape[:-1], *self.output_size(height, width))

    def check(self, x: Tensor) -> None:
        """Raise an error if the shape of x is wrong."""
        if x.ndim < 3 or x.shape[-3] != self.in_channels:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, but must be (..., channels, height, width) "
                f"with in_channels = {self.in_channels}"
            )
        if min(self.output_size(*x.shape[-2:])) < 1:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, but {self._too_small}, "
                f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}"
            )

    def extra_repr(self) -> str:
        """Arguments as torch prints them, without defaults."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        usual: dict[str, Any] = {"padding": (0, 0), "output_padding": (0, 0), "dilation": (1, 1), "groups": 1}
        given = {name: getattr(self, name, value) for name, value in {**usual, "padding_mode": "zeros"}.items()}
        return text + "".join(f", {k}={v!r}" for k, v in given.items() if v != usual.get(k, "zeros"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _pad(self, x: Tensor) -> Tensor:
        """x with its margins: (batch, C, H, W) -> (batch, C, H + ..., W + ...)."""
        if not any(self._margins):
            return x
        return functional.pad(x, self._margins, "constant" if self.padding_mode == "zeros" else self.padding_mode)


class Convolutional:
    """The attributes of nn.Conv2d, for a layer with a geometry."""

    geometry: ConvGeometry
    feature_axes = 3

    @property
    def in_channels(self) -> int:
        """Of the input."""
        return self.geometry.in_channels

    @property
    def out_channels(self) -> int:
        """Of the output."""
        return self.geometry.out_channels

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Height and width."""
        return self.geometry.kernel_size

    @property
    def stride(self) -> tuple[int, ...]:
        """Down and across."""
        return self.geometry.stride

    @property
    def padding(self) -> tuple[int, ...] | str:
        """Above and below, left and right; or "same" or "valid"."""
        return self.geometry.padding

    @property
    def dilation(self) -> tuple[int, ...]:
        """Down and across."""
        return self.geometry.dilation

    @property
    def padding_mode(self) -> str:
        """How the margins are filled."""
        return self.geometry.padding_mode


class TransposedGeometry(ConvGeometry):
    """How a transposed convolution reads its input.

    Args:
        sizes, others: as for ``ConvGeometry``; padding in numbers, and nothing but zeros around.
        output_padding: as for nn.ConvTranspose2d.

    Law: <y, convolve(x, weight)> == <x, conv2d(y, weight)>, with the same geometry.

    >>> geometry = TransposedGeometry(4, 6, 3, stride=2, padding=1, groups=2, output_padding=1)
    >>> geometry.weight_shape, geometry.output_size(4, 5)
    ((4, 3, 3, 3), (8, 10))
    """

    _too_small = "its output would be empty"

    def __init__(self, *sizes: Any, output_padding: Size = 0, **others: Any) -> None:
        super().__init__(*sizes, **others)
        self.output_padding = _pair("output_padding", output_padding, least=0)
        if self.padding_mode != "zeros" or isinstance(self.padding, str):
            raise ArgumentError(
                "a transposed convolution takes padding in numbers and padding_mode='zeros', as in torch, got "
                f"padding={self.padding!r} and padding_mode={self.padding_mode!r}"
            )
        if any(more >= max(s, d) for more, s, d in zip(self.output_padding, self.stride, self.dilation, strict=True)):
            raise ArgumentError(
                f"output_padding must be smaller than stride or dilation, got {self.output_padding} with "
                f"stride={self.stride}, dilation={self.dilation}"
            )

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """(in_channels, out_channels / groups, kernel height, kernel width)."""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an input of that height and width."""
        (top, bottom), (left, right) = self._around(0), self._around(1)
        rows, columns = (
            (size - 1) * stride - margin + dilation * (kernel - 1) + more + 1
            for size, margin, kernel, stride, dilation, more in zip(
                (height, width),
                (top + bottom, left + right),
                self.kernel_size,
                self.stride,
                self.dilation,
                self.output_padding,
                strict=True,
            )
        )
        return rows, columns

    def _convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        padding = cast(Pair, self.padding)
        return functional.conv_transpose2d(
            x, weight, bias, self.stride, padding, self.output_padding, groups, self.dilation
        )


def geometry_of(layer: nn.Module | ConvGeometry) -> dict[str, Any]:
    """The arguments of a convolution besides its weight: those of torch and of ``ConvGeometry``."""
    names = ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
    if isinstance(layer, nn.ConvTranspose1d | nn.ConvTranspose2d | TransposedGeometry):
        names.append("output_padding")
    return {name: getattr(layer, name) for name in names}


def _reach(start: int, count: int, step: int) -> slice:
    """The indices of ``count`` elements with a distance of ``step``."""
    return slice(start, start + (count - 1) * step + 1, step)


def _pair(name: str, value: Size, least: int = 1) -> Pair:
    if isinstance(value, int):
        return (whole_number(name, value, least),) * 2
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputTypeError(f"{name} must be an int or two of them, got {value!r}")
    return cast(Pair, tuple(whole_number(name, each, least) for each in value))
