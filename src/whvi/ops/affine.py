"""A structured product with noise and a bias with noise, as one step of autograd."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.ops import registry
from whvi.ops.bias import noisy_bias
from whvi.ops.chain import Maybe, noise_layout, noisy_chain, stacked_call
from whvi.ops.layout import Layout, Shape
from whvi.ops.recording import (
    composed_backward,
    forward_mode_active,
    in_front,
    only_vmap,
    record,
    transforms_active,
    under_vmap,
    watched,
)


def noisy_affine(
    x: Tensor,
    s1: Maybe,
    s2: Maybe,
    mean: Tensor,
    log_std: Tensor,
    bias_mean: Tensor,
    bias_log_std: Tensor,
    seed: Tensor,
    offset: int,
    bias_offset: int,
    *,
    noise_shape: Sequence[int],
    stacked: bool,
) -> Tensor:
    """``noisy_bias`` of ``noisy_chain``, whose result is cut to the length of the bias.

    Args:
        x, s1, s2, mean, log_std, seed, offset, noise_shape: as for ``noisy_chain``; float32 or float64.
        bias_mean, bias_log_std: (N,).
        bias_offset: place in the stream of the first number of the bias.
        stacked: the result of the chain has an axis of blocks, which are put side by side before they are cut.

    A small layer costs what its steps of autograd cost: here there is one, in place of four.

    Law: equals the two operators one after the other, in value and in gradients of any order.

    >>> x, zero = torch.ones(3, 4), torch.zeros(4)
    >>> arguments = (None, None, zero, zero, zero[:2], zero[:2], torch.tensor(7), 0, 100)
    >>> noisy_affine(x, *arguments, noise_shape=(3,), stacked=False).shape
    torch.Size([3, 2])
    """
    operands = (x, s1, s2, mean, log_std, bias_mean, bias_log_std, seed)
    shape = tuple(noise_shape)
    layout = None
    alike = x.dtype == mean.dtype == bias_mean.dtype and x.device == mean.device == bias_mean.device
    if alike and (not watched() or only_vmap()):
        scales = (None if s is None else s.shape for s in (s1, s2))
        layout = _layout(x.shape, *scales, mean.shape, log_std.shape, shape)
    call = () if layout is None else (offset, *layout[:5], 1.0 / x.shape[-1])
    plan = _Plan(offset, bias_offset, shape, stacked, call)
    if layout is None:
        return _composed(*operands, plan)
    try:
        if transforms_active():
            return under_vmap(_affine, _NoisyAffine.vmap, *operands, plan)
        return _affine(*operands, plan)
    except RuntimeError:
        _composed(*operands, plan)  # says what does not fit
        raise


def _affine(*arguments: Any) -> Tensor:
    y: Tensor = record(_NoisyAffine, *arguments)
    return y


class _Plan:
    """What a call has besides its tensors. Not a tuple, which torch.func would take apart and put together again."""

    __slots__ = ("batch", "bias_offset", "call", "noise_shape", "offset", "stacked")

    def __init__(
        self,
        offset: int,
        bias_offset: int,
        noise_shape: Shape,
        stacked: bool,
        call: tuple[Any, ...],
        batch: int = 0,
    ) -> None:
        self.offset, self.bias_offset = offset, bias_offset
        self.noise_shape, self.stacked = noise_shape, stacked
        self.call = call
        """Of ``registry.chain``, or empty."""
        self.batch = batch
        """How many axes of vmap all operands have in front."""

    def over(self, size: int) -> "_Plan":
        """The same, with one more axis of that size in front of all operands."""
        call = stacked_call(self.call, size)
        return _Plan(self.offset, self.bias_offset, self.noise_shape, self.stacked, call, self.batch + 1)


@lru_cache(maxsize=1024)
def _layout(x: Shape, s1: Shape | None, s2: Shape | None, mean: Shape, std: Shape, noise: Shape) -> Layout | None:
    """As ``noise_layout``; a network meets few shapes, again and again."""
    leads = [None if shape is None else tuple(shape[:-1]) for shape in (x, s1, mean, s2, std)]
    return noise_layout(leads, noise)[1]


def _composed(
    x: Tensor,
    s1: Maybe,
    s2: Maybe,
    mean: Tensor,
    log_std: Tensor,
    bias_mean: Tensor,
    bias_log_std: Tensor,
    seed: Tensor,
    plan: _Plan,
) -> Tensor:
    y = noisy_chain(x, s1, mean, log_std, s2, seed, plan.offset, noise_shape=plan.noise_shape)
    return noisy_bias(_cut(y, plan, bias_mean.shape[-1]), bias_mean, bias_log_std, seed, plan.bias_offset)


def _cut(y: Tensor, plan: _Plan, features: int) -> Tensor:
    y = y.flatten(-2) if plan.stacked else y
    return y if y.shape[-1] == features else y[..., :features]


class _NoisyAffine(torch.autograd.Function):
    """Eager execution, and vmap of it; a derivative that may itself be differentiated is that of the composition."""

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> Tensor:
        s1, s2, mean, log_std, bias_mean, bias_log_std, seed, plan = arguments
        y = registry.eager_chain(x, s1, mean, s2, log_std.exp(), seed, *plan.call)
        y = _cut(y, plan, bias_mean.shape[-1])
        return registry.eager_noisy_bias(y, bias_mean, bias_log_std, seed, plan.bias_offset)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.plan = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Maybe, ...]:
        if torch.is_grad_enabled() or forward_mode_active():
            plan = ctx.plan
            return composed_backward(
                lambda *operands: _composed_over(plan.batch, operands, plan),
                ctx.saved_tensors,
                ctx.needs_input_grad,
                grads[0],
            )
        x, s1, s2, mean, log_std, _, bias_log_std, seed = ctx.saved_tensors
        by_x, by_s1, by_s2, by_mean, by_log_std, by_bias, by_bias_log_std, *_ = needs = ctx.needs_input_grad
        dy, plan = grads[0], ctx.plan
        dbias, dbias_log_std = registry.eager_noisy_bias_backward(
            dy, bias_log_std, seed, plan.bias_offset, by_bias | by_bias_log_std << 1
        )
        shape = (*plan.call[1], x.shape[-1])
        if dy.shape != shape:
            missing = prod(shape[dy.ndim - 1 :]) - dy.shape[-1]
            dy = (pad(dy, (0, missing)) if missing else dy).reshape(shape)
        mask = by_x | by_s1 << 1 | by_mean << 2 | by_s2 << 3 | by_log_std << 4
        std = log_std.exp()
        dx, ds1, dmean, ds2, dstd = registry.eager_chain_backward(dy, x, s1, mean, s2, std, seed, *plan.call, mask)
        dlog_std = dstd * std if by_log_std else None
        parts = (dx, ds1, ds2, dmean, dlog_std, dbias, dbias_log_std)
        return *(part if need else None for part, need in zip(parts, needs, strict=False)), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, plan = inputs
        front = in_front(in_dims[:-1], tensors, info.batch_size)
        return record(_NoisyAffine, *front, plan.over(info.batch_size)), 0


def _composed_over(axes: int, operands: Sequence[Maybe], plan: _Plan) -> Tensor:
    """The composition under as many vmaps as the operands have axes in front."""
    if axes == 0:
        return _composed(*operands, plan)  # type: ignore[arg-type, call-arg]
    dims = (tuple(None if operand is None else 0 for operand in operands),)
    y: Tensor = torch.func.vmap(lambda rest: _composed_over(axes - 1, rest, plan), in_dims=dims)(tuple(operands))
    return y
