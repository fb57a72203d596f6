"""Zeros up to the next power of two."""

import torch
from torch import Tensor

from whvi.errors import InputTypeError, ShapeError


def pad(x: Tensor) -> Tensor:
    """Append zeros to the last axis up to the next power of two: (..., d) -> (..., D). Returns x itself when d is one.

    >>> pad(torch.ones(3))
    tensor([1., 1., 1., 0.])
    """
    if not isinstance(x, Tensor):
        raise InputTypeError(f"x must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ShapeError(f"x has shape {tuple(x.shape)}; padding needs a last axis of at least one element")
    size = x.shape[-1]
    wanted = 1 << (size - 1).bit_length()
    return x if wanted == size else torch.nn.functional.pad(x, (0, wanted - size))
