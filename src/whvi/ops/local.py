"""A linear layer with independent Gaussian weights and bias, which draws outputs instead of weights."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from whvi.ops import registry
from whvi.ops.noise import normal
from whvi.ops.precision import full_precision
from whvi.ops.recording import composed_backward, in_front, one_vmap, record, under_vmap
from whvi.ops.torch_private import forward_mode_active, watched


def local_linear(
    x: Tensor,
    mean: Tensor,
    log_std: Tensor,
    bias_mean: Tensor,
    bias_log_std: Tensor,
    seed: Tensor,
    offset: int,
    bias_offset: int,
) -> Tensor:
    """y = M x + sqrt(S^2 x^2) eps + b, with b = bias_mean + exp(bias_log_std) eps', as one step of autograd.

    Args:
        x: (..., in), float32 or float64.
        mean, log_std: M and log S, (out, in), of the dtype of x.
        bias_mean, bias_log_std: (out,).
        seed: int64 scalar, from ``draw_seed``.
        offset, bias_offset: indices of the first numbers of eps and eps' in the stream.

    In wide layers the passes over the weights dominate; this makes as few as possible.

    Law: equals the same expression in torch, in value and in gradients of any order.

    >>> x, zero = torch.ones(3, 4), torch.zeros(2, 4)
    >>> y = local_linear(x, zero, zero, zero[:, 0], zero[:, 0] - 20, torch.tensor(7), 0, 100)
    >>> torch.allclose(y, 2 * normal(7, 0, (3, 2)))
    True
    """
    operands = (x, mean, log_std, bias_mean, bias_log_std, seed)
    with full_precision(x):  # squares leave the range of float16
        if not watched():
            y: Tensor = record(_Local, *operands, offset, bias_offset, None)
            return y
        if one_vmap():
            return under_vmap(local_linear, _vmap, *operands, offset, bias_offset)
        return _composed(*operands, offset, bias_offset)


def drawn(centre: Tensor, variance: Tensor, noise: Tensor) -> Tensor:
    """centre + sqrt(variance) * noise, in the dtype of the centre."""
    # Where x is zero so is the variance, and the slope of its root is infinite: the floor makes it zero there.
    root = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
    return torch.addcmul(centre, root.to(centre.dtype), noise.to(centre.dtype))


def _composed(
    x: Tensor,
    mean: Tensor,
    log_std: Tensor,
    bias_mean: Tensor,
    bias_log_std: Tensor,
    seed: Tensor,
    offset: int,
    bias_offset: int,
) -> Tensor:
    centre = linear(x, mean)
    noise, bias_noise = (normal(seed, place, centre.shape, dtype=x.dtype) for place in (offset, bias_offset))
    variance = linear(x.square(), (2 * log_std).exp())
    return drawn(centre, variance, noise) + (bias_mean + bias_log_std.exp() * bias_noise)


class _Local(torch.autograd.Function):
    """The operands alone, or R of each: all with an axis of R in front, if R is not None."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *rest: Any) -> Tensor:
        mean, log_std, bias_mean, bias_log_std, seed, offset, bias_offset, replicas = rest
        rows, means, log_stds = _stacked(replicas, x, mean, log_std)
        variances = log_stds.exp().square_()
        y = torch.bmm(rows, means.mT)
        root = torch.bmm(rows.square(), variances.mT).clamp_min_(torch.finfo(x.dtype).tiny).sqrt_()
        noise = registry.normal(seed.reshape(-1), offset, prod(y.shape[1:])).view(y.shape).to(y.dtype)
        y = y.addcmul_(root, noise).view(*x.shape[:-1], mean.shape[-2])
        ctx.save_for_backward(x, mean, log_std, bias_mean, bias_log_std, seed, variances, root, noise)
        ctx.offset, ctx.bias_offset, ctx.replicas = offset, bias_offset, replicas
        return registry.noisy_bias(y, bias_mean, bias_log_std, seed, bias_offset)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *operands, variances, root, noise = ctx.saved_tensors
        if torch.is_grad_enabled() or forward_mode_active():

            def compose(*operands: Tensor) -> Tensor:
                return _composed(*operands, ctx.offset, ctx.bias_offset)  # type: ignore[call-arg, arg-type]

            function = compose if ctx.replicas is None else torch.func.vmap(compose)
            return composed_backward(function, operands, ctx.needs_input_grad, grads[0])
        x, mean, _, _, bias_log_std, seed = operands
        by_x, by_mean, by_log_std, by_bias, by_bias_log_std, *_ = ctx.needs_input_grad
        dbias, dbias_log_std = registry.noisy_bias_backward(
            grads[0], bias_log_std, seed, ctx.bias_offset, by_bias | by_bias_log_std << 1
        )
        (dy, means), (rows,) = _stacked(ctx.replicas, grads[0], mean), _stacked(ctx.replicas, x)
        at_floor = root <= torch.finfo(root.dtype).tiny ** 0.5
        slope = (dy * noise).div_(root).masked_fill_(at_floor, 0.0)
        dx = torch.bmm(slope, variances).mul_(rows).baddbmm_(dy, means).view(x.shape) if by_x else None
        dmean = torch.bmm(dy.mT, rows).view(mean.shape) if by_mean else None
        dlog_std = torch.bmm(slope.mT, rows.square()).mul_(variances).view(mean.shape) if by_log_std else None
        biases = dbias if by_bias else None, dbias_log_std if by_bias_log_std else None
        return dx, dmean, dlog_std, *biases, None, None, None, None


def _stacked(replicas: int | None, rows: Tensor, *matrices: Tensor) -> list[Tensor]:
    """(R, ..., n) as (R, rows, n), and matrices with an axis of R; all with an axis of one where R is None."""
    if replicas is None:
        rows, matrices = rows.unsqueeze(0), tuple(matrix.unsqueeze(0) for matrix in matrices)
    return [rows.reshape(len(rows), prod(rows.shape[1:-1]), rows.shape[-1]), *matrices]


def _vmap(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Tensor, int]:
    front = in_front(in_dims[:6], inputs[:6], info.batch_size)
    return record(_Local, *front, *inputs[6:], info.batch_size), 0
