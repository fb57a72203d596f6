"""Padding with zeros to a size that the transform supports."""

import torch
from torch import Tensor

from whvi.annotations import check, kind_of
from whvi.errors import InputTypeError, ShapeError


def pad(x: Tensor, size: int | None = None) -> Tensor:
    """Append zeros to the last axis: (..., d) -> (..., size). Returns x itself when d is size.

    Args:
        x: (..., d).
        size: default the next power of two; ``whvi.ops.next_order(d)`` is at most that.

    >>> pad(torch.ones(3))
    tensor([1., 1., 1., 0.])
    >>> pad(torch.ones(700), 768).shape
    torch.Size([768])
    """
    if not isinstance(x, Tensor):
        raise InputTypeError(f"x must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ShapeError(f"x has shape {tuple(x.shape)}; padding needs a last axis of at least one element")
    if size is not None:
        check("size", size, kind_of(int))
    length = x.shape[-1]
    wanted = 1 << (length - 1).bit_length() if size is None else size
    if wanted < length:
        raise ShapeError(f"x has shape {tuple(x.shape)}; its last axis cannot be padded to {wanted}, which is shorter")
    return x if wanted == length else torch.nn.functional.pad(x, (0, wanted - length))
