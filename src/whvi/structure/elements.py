"""Permuting and summing elements of vectors and matrices."""

import torch
from torch import Tensor


def xor_fold(x: Tensor) -> Tensor:
    """Sums over the elements whose row and column differ by the same bits: (..., D, D) -> (..., D).

    Element m is the sum of x[i, i xor m] over i. Each of the log2(D) passes halves the data, so the time is O(D^2).

    >>> xor_fold(torch.tensor([[1.0, 2.0], [30.0, 40.0]]))
    tensor([41., 32.])
    """
    x = x.unsqueeze(-3)
    while (half := x.shape[-1] // 2) > 0:
        same = x[..., :half, :half] + x[..., half:, half:]
        other = x[..., :half, half:] + x[..., half:, :half]
        x = torch.stack((same, other), dim=-3).flatten(-4, -3)
    return x.flatten(-3)


def permuted(x: Tensor, permutation: Tensor) -> Tensor:
    """Element i of the result is element p_i of the last axis; leading axes are broadcast."""
    lead = torch.broadcast_shapes(x.shape[:-1], permutation.shape[:-1])
    return x.expand(*lead, -1).gather(-1, permutation.expand(*lead, -1))


def inverse(permutation: Tensor) -> Tensor:
    """The permutation that takes another one back, which is its transpose.

    >>> inverse(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return permutation.argsort(-1)
