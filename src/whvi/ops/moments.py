"""A sum over many short vectors as one step of autograd, for the KL divergences of diagonal Gaussians."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.ops import fallback, registry
from whvi.ops.recording import record
from whvi.ops.torch_private import watched

_SHORT = 1 << 15
"""Up to this total size of all means, the number of operations dominates."""


def moments(
    means: Sequence[Tensor],
    log_stds: Sequence[Tensor],
    square: float,
    variance: float,
    log_std: float,
    constant: float = 0.0,
) -> Tensor:
    """Sum of ``square * m^2 + variance * exp(2 l) + log_std * l`` over the elements of all pairs, plus a constant.

    A network has many short vectors, which in eager execution become one operator and one node of autograd. For long
    ones the passes dominate: each is one node with as few passes as possible in torch.

    Args:
        means, log_stds: as many tensors each; the two of a pair have one shape, and all have one dtype, float32 or
            float64, and device.
        square, variance, log_std, constant: numbers.

    Law: equals the same sum in torch, in value and in derivatives of any order.

    >>> moments([torch.tensor([1.0, 2.0])], [torch.zeros(2)], square=3.0, variance=0.5, log_std=-1.0)
    tensor(16.)
    """
    coefficients = square, variance, log_std
    if watched():
        return fallback.moments(means, log_stds, *coefficients, constant)
    if sum([mean.numel() for mean in means]) <= _SHORT:
        total: Tensor = record(_Moments, (*coefficients, constant), True, *means, *log_stds)
        return total
    parts = [record(_Moments, (*coefficients, 0.0), False, *pair) for pair in zip(means, log_stds, strict=True)]
    return torch.stack(parts).sum() + constant


class _Moments(torch.autograd.Function):
    """The coefficients, whether vectors are short, all means, and all log_stds; in plain eager execution only."""

    @staticmethod
    def forward(ctx: Any, coefficients: tuple[float, ...], short: bool, *vectors: Tensor) -> Tensor:
        half = len(vectors) // 2
        means, log_stds = vectors[:half], vectors[half:]
        stds = None if short else [vector.exp() for vector in log_stds]  # a pass that need not be made again
        ctx.save_for_backward(*vectors, *(stds or ()))
        ctx.coefficients, ctx.half = coefficients, half
        if short:
            return registry.moments(means, log_stds, *coefficients)
        square, variance, log_std, constant = coefficients
        return fallback.moments(means, log_stds, square, variance, log_std, constant, stds)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, half = ctx.saved_tensors, ctx.half
        means, log_stds, stds = saved[:half], saved[half : 2 * half], saved[2 * half :] or None
        square, variance, log_std, _ = ctx.coefficients
        if torch.is_grad_enabled():  # this gradient may itself be differentiated, and exp(l) was not recorded
            parts = fallback.moments_backward(grads[0], means, log_stds, square, variance, log_std)
        elif stds is None:
            parts = registry.moments_backward(grads[0], means, log_stds, square, variance, log_std)
        else:
            parts = fallback.moments_backward(grads[0], means, log_stds, square, variance, log_std, stds)
        return None, None, *parts
