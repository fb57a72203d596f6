"""3 x 3 convolutions in a quarter of the products, after Winograd (1980) and Lavin and Gray (2016).

F(4 x 4, 3 x 3): a tile of 4 x 4 outputs sees 6 x 6 inputs. Both, and the kernel, are taken to 36 points where the
convolution is a product, so that all tiles of all images take 36 products of matrices: 36 numbers for each pair of
channels, not 144. A plane of 2 x 2 is a tile by itself, which sees only zeros around it: 9 points, not 36 numbers.
These are plain operations of torch, so that derivatives of any order, vmap and other transforms come by themselves.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.ops.recording import traced

CHANNELS, WITH_GRADIENTS, WITHOUT, TILES = 64, 256, 512, 64
"""At least so many channels on each side, on both together (half of it for planes of 2 x 2), and tiles; or going there
and back costs more than is gained. Measured with AVX2 (docs/models.md)."""
NUMBERS_AT_ONCE, TILES_AT_ONCE = 2**16, 256
"""Of each point, of so many images as are taken together: what they are at the points, some 10 MB, is soon wanted
again, and malloc has it at hand. Fewer tiles would make the products of matrices flat."""


class _Points(NamedTuple):
    """The way to the points and back, for planes: of each axis the transform, times itself for the other."""

    side: int
    """Outputs of a tile, down and across."""
    of_input: Tensor
    of_kernel: Tensor
    to_output: Tensor

    def to(self, x: Tensor) -> "_Points":
        """In the precision of x."""
        return _Points(self.side, self.of_input.to(x), self.of_kernel.to(x), self.to_output.to(x))


def _both_axes(one_axis: list[list[int]]) -> Tensor:
    line = torch.tensor(one_axis, dtype=torch.float64)
    return torch.kron(line, line)


# Made once, and not in a call, which may be traced.
_OVERLAPPING = _Points(
    4,
    _both_axes(
        [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
         [0, 4, 0, -5, 0, 1]]
    ),
    _both_axes([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24**2,
    _both_axes([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]),
)  # fmt: skip
# With the taps a, b, c of a line: b x0 + c x1 = b (x0 + x1) + (c - b) x1, and a x0 + b x1 = b (x0 + x1) + (a - b) x0.
_ALONE = _Points(
    2,
    _both_axes([[1, 1], [0, 1], [1, 0]]),
    _both_axes([[0, 1, 0], [0, -1, 1], [1, -1, 0]]),
    _both_axes([[1, 1, 0], [1, 0, 1]]),
)


def pays(x: Tensor, weight: Tensor) -> bool:
    """Whether it is there for such a convolution, with stride 1 and one zero around, and faster than torch's own.

    Only in float32 on a CPU: half precision would lose too much on the way, and float64 is asked for to be exact. What
    is traced, to be compiled or exported, keeps torch's convolution: other programs know it, with any number of images.

    Args:
        x: (N, in_channels, H, W).
        weight: (out_channels, in_channels / groups, height, width).
    """
    if traced() or x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or weight.shape[1:] != (x.shape[1], 3, 3):
        return False
    count, _, height, width = x.shape
    channels, side = weight.shape[:2], _points(height, width).side
    gradients = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    wide = (WITH_GRADIENTS if gradients else WITHOUT) * side // 4
    return (
        height % side == width % side == 0
        and count * height * width >= TILES * side**2
        and min(channels) >= CHANNELS
        and sum(channels) >= wide
    )


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """(N, C, H, W), (K, C, 3, 3) -> (N, K, H, W), where H and W are multiples of 4, or both are 2.

    Law: convolve(x, weight) == conv2d(x, weight, padding=1). In float32 the largest difference is some 1e-5 of the
    largest output.

    >>> x, weight = torch.randn(2, 3, 8, 4), torch.randn(5, 3, 3, 3)
    >>> y = torch.nn.functional.conv2d(x, weight, padding=1)
    >>> torch.allclose(convolve(x, weight), y, atol=1e-3)
    True
    """
    channels, (height, width) = max(weight.shape[:2]), x.shape[2:]
    way = _points(height, width).to(x)
    kernel = (way.of_kernel @ weight.permute(2, 3, 1, 0).reshape(9, -1)).view(-1, *weight.shape[1::-1])
    tiles = max(NUMBERS_AT_ONCE // channels, TILES_AT_ONCE)
    parts = x.split(max(1, tiles * way.side**2 // (height * width)))
    found = [_convolve(part, kernel, way) for part in parts]
    return found[0] if len(found) == 1 else torch.cat(found)


def _convolve(x: Tensor, kernel: Tensor, way: _Points) -> Tensor:
    (count, _, height, width), (points, channels, outputs), side = x.shape, kernel.shape, way.side
    tiles = _tiles(x.permute(0, 2, 3, 1), side).permute(2, 4, 0, 1, 3, 5)  # (seen, seen, N, rows, columns, C)
    at_points = (way.of_input @ tiles.flatten(0, 1).flatten(1)).view(points, -1, channels)
    y = way.to_output @ torch.bmm(at_points, kernel).flatten(1)
    y = y.view(side, side, count, height // side, width // side, outputs)
    return y.permute(2, 3, 0, 4, 1, 5).reshape(count, height, width, outputs).permute(0, 3, 1, 2)


def _points(height: int, width: int) -> _Points:
    return _ALONE if height == width == 2 else _OVERLAPPING


def _tiles(planes: Tensor, side: int) -> Tensor:
    """What the tiles of planes see: (N, H, W, C) -> (N, rows, seen, columns, seen, C)."""
    if side == 2:
        return planes[:, None, :, None]
    return _overlapping(_overlapping(pad(planes, (0, 0, 1, 1, 1, 1)), 1), 3)


def _overlapping(x: Tensor, axis: int) -> Tensor:
    """Tiles of 6, 4 apart, along an axis of 4 t + 2 elements, which becomes two: t and 6."""
    count = (x.shape[axis] - 2) // 4
    whole = x.narrow(axis, 0, 4 * count).unflatten(axis, (count, 4))
    ahead = x.movedim(axis, 0)[4:]
    two = [ahead[start::4].movedim(0, axis).unsqueeze(axis + 1) for start in (0, 1)]  # the next tile's first
    return torch.cat((whole, *two), axis + 1)
