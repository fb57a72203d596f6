"""3 x 3 convolutions in a quarter of the products, after Winograd (1980) and Lavin and Gray (2016): F(4 x 4, 3 x 3).

A tile of 4 x 4 outputs sees 6 x 6 inputs. Both, and the kernel, are taken to 36 points where the convolution is a
product, so that all tiles of all images take 36 products of matrices: 36 numbers for each pair of channels, not 144.
These are plain operations of torch, so that derivatives of any order, vmap and other transforms come by themselves.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.ops.recording import traced

TILE = 4
"""Outputs of a tile, down and across."""
CHANNELS, WITH_GRADIENTS, WITHOUT, TILES = 64, 256, 512, 64
"""At least so many channels on each side, on both together, and tiles; or going there and back costs more than is
gained. Measured with AVX2 (docs/models.md)."""


def _both_axes(one_axis: list[list[int]]) -> Tensor:
    """A transform of planes from that of lines: the transform of one axis, times itself for the other."""
    line = torch.tensor(one_axis, dtype=torch.float64)
    return torch.kron(line, line)


# Made once, and not in a call, which may be traced.
_INPUT = _both_axes(
    [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
     [0, 4, 0, -5, 0, 1]]
)  # fmt: skip
_KERNEL = _both_axes([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24**2
_OUTPUT = _both_axes([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])


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
    channels = weight.shape[:2]
    gradients = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    return (
        height % TILE == width % TILE == 0
        and count * height * width >= TILES * TILE**2
        and min(channels) >= CHANNELS
        and sum(channels) >= (WITH_GRADIENTS if gradients else WITHOUT)
    )


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """(N, C, H, W), (K, C, 3, 3) -> (N, K, H, W), where H and W are multiples of 4.

    Law: convolve(x, weight) == conv2d(x, weight, padding=1). In float32 the largest difference is some 1e-5 of the
    largest output.

    >>> x, weight = torch.randn(2, 3, 8, 4), torch.randn(5, 3, 3, 3)
    >>> y = torch.nn.functional.conv2d(x, weight, padding=1)
    >>> torch.allclose(convolve(x, weight), y, atol=1e-3)
    True
    """
    (count, channels, height, width), outputs = x.shape, weight.shape[0]
    to_input, to_kernel, to_output = _INPUT.to(x), _KERNEL.to(x), _OUTPUT.to(x)
    planes = pad(x.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
    tiles = _overlapping(_overlapping(planes, 1), 3).permute(2, 4, 0, 1, 3, 5)  # (6, 6, N, rows, columns, C)
    points = (to_input @ tiles.reshape(36, -1)).view(36, -1, channels)
    kernel = (to_kernel @ weight.permute(2, 3, 1, 0).reshape(9, -1)).view(36, channels, outputs)
    y = (to_output @ torch.bmm(points, kernel).view(36, -1)).view(
        TILE, TILE, count, height // TILE, width // TILE, outputs
    )
    return y.permute(2, 3, 0, 4, 1, 5).reshape(count, height, width, outputs).permute(0, 3, 1, 2)


def _overlapping(x: Tensor, axis: int) -> Tensor:
    """Tiles of 6, 4 apart, along an axis of 4 t + 2 elements, which becomes two: t and 6."""
    count = (x.shape[axis] - 2) // TILE
    whole = x.narrow(axis, 0, TILE * count).unflatten(axis, (count, TILE))
    ahead = x.movedim(axis, 0)[TILE:]
    two = [ahead[start::TILE].movedim(0, axis).unsqueeze(axis + 1) for start in (0, 1)]  # the next tile's first
    return torch.cat((whole, *two), axis + 1)
