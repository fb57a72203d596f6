"""The product of a structured layer: W(g) x + b, and the one place that decides how it runs."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.ops import registry
from whvi.ops.bias import add_bias
from whvi.ops.chain import Maybe, stacked_call, sum_of_chains, sum_of_noisy_chains
from whvi.ops.layout import Layout, Shape, noise_layout
from whvi.ops.noise import KernelNoise
from whvi.ops.recording import composed_backward, in_front, only_vmap, record, under_vmap
from whvi.ops.torch_private import forward_mode_active, transforms_active, watched

Vector = Tensor | KernelNoise
"""A vector, or the Gaussian that it is drawn from where it is used."""


def product(
    x: Tensor,
    s1: Maybe,
    g: Vector,
    s2: Maybe,
    bias: Vector | None = None,
    *,
    stacked: bool = False,
    summed: bool = False,
    features: int | None = None,
) -> Tensor:
    """``s1 * H(g * H(s2 * x)) / D``, or a sum of such, laid out as features, plus a bias.

    Args:
        x, s1, s2: as for ``chain`` or, summed, as for ``sum_of_chains``.
        g: (..., D), or the noise it is drawn from, whose ``lead`` includes the axes of terms, columns and blocks that
            there are.
        bias: (..., features) or its noise; None for none.
        stacked: the result of the chain has an axis of blocks, which are put side by side.
        summed: operands have axes of terms, columns and blocks, and terms and columns are summed over; it is stacked.
        features: length to which the last axis is cut; default all of it.

    Two ways lead to the same numbers. Where g and the bias are both noise, with a draw of the bias for each row, and
    nothing but eager execution or vmap goes on, the whole product is one step of autograd: a small layer costs what its
    steps cost (1.15 times as long in steps at D = 128, 1.06 at 512). Everywhere else it is the chain, then the bias.

    Law: equals ``add_bias(cut(chain(x, s1, g, s2)), bias)``, or that of ``sum_of_chains``, in value and in gradients of
    any order.

    >>> noise = KernelNoise(torch.zeros(4), torch.zeros(4), torch.tensor(7), (3,))
    >>> product(torch.ones(3, 4), None, noise, None, features=2).shape
    torch.Size([3, 2])
    """
    if isinstance(g, KernelNoise) and isinstance(bias, KernelNoise):
        layout = _layout_of_one_step(x, s1, g, s2, bias, stacked, summed)
        if layout is not None:
            call = (g.offset, *layout[:7], 1.0 / x.shape[-1])
            step = _Step(g.offset, bias.offset, tuple(g.lead), stacked, summed, call)
            operands = (x, s1, s2, g.mean, g.log_std, bias.mean, bias.log_std, g.seed, bias.seed)
            try:
                return (
                    under_vmap(_run, _Product.vmap, *operands, step) if transforms_active() else _run(*operands, step)
                )
            except RuntimeError:
                _composed(*operands, step)  # says what does not fit
                raise
    if isinstance(g, KernelNoise):
        y = sum_of_noisy_chains(x, s1, g.mean, g.log_std, s2, g.seed, g.offset, noise_shape=g.lead, summed=summed)
    else:
        y = sum_of_chains(x, s1, g, s2, summed=summed)
    return add_bias(cut(y, stacked, features), bias)


def cut(y: Tensor, stacked: bool, features: int | None) -> Tensor:
    """Blocks side by side, and the first features of them: (..., [K,] D) -> (..., features)."""
    y = y.flatten(-2) if stacked else y
    return y if features is None or y.shape[-1] == features else y[..., :features]


def _layout_of_one_step(
    x: Tensor, s1: Maybe, g: KernelNoise, s2: Maybe, bias: KernelNoise, stacked: bool, summed: bool
) -> Layout | None:
    """How the kernel walks the chain, if the product can be one step of autograd; None if it cannot."""
    alike = x.dtype == g.mean.dtype == bias.mean.dtype and x.device == g.mean.device == bias.mean.device
    rows = x.shape[: -4 if summed else -2 if stacked else -1]
    if not alike or tuple(bias.lead) != tuple(rows) or (watched() and not only_vmap()):
        return None
    scales = (None if s is None else s.shape for s in (s1, s2))
    return _layout(x.shape, *scales, g.mean.shape, g.log_std.shape, tuple(g.lead), summed)


@lru_cache(maxsize=1024)
def _layout(
    x: Shape, s1: Shape | None, s2: Shape | None, mean: Shape, std: Shape, noise: Shape, summed: bool
) -> Layout | None:
    """As ``noise_layout``; a network meets few shapes, again and again."""
    leads = [None if shape is None else tuple(shape[:-1]) for shape in (x, s1, mean, s2, std)]
    return noise_layout(leads, noise, summed=summed)[1]


class _Step:
    """What a call has besides its tensors. Not a tuple, which torch.func would take apart and put together again."""

    __slots__ = ("batch", "bias_offset", "call", "noise_shape", "offset", "stacked", "summed")

    def __init__(
        self,
        offset: int,
        bias_offset: int,
        noise_shape: Shape,
        stacked: bool,
        summed: bool,
        call: tuple[Any, ...],
        batch: int = 0,
    ) -> None:
        self.offset, self.bias_offset = offset, bias_offset
        self.noise_shape, self.stacked, self.summed = noise_shape, stacked, summed
        self.call = call
        """Of ``registry.chain``."""
        self.batch = batch
        """How many axes of vmap all operands have in front."""

    def over(self, size: int) -> "_Step":
        """The same, with one more axis of that size in front of all operands."""
        call = stacked_call(self.call, size)
        return _Step(self.offset, self.bias_offset, self.noise_shape, self.stacked, self.summed, call, self.batch + 1)


def _run(*arguments: Any) -> Tensor:
    y: Tensor = record(_Product, *arguments)
    return y


def _composed(*arguments: Any) -> Tensor:
    """The same product as two operators, which have derivatives of any order."""
    x, s1, s2, mean, log_std, bias_mean, bias_log_std, seed, bias_seed, step = arguments
    y = sum_of_noisy_chains(
        x, s1, mean, log_std, s2, seed, step.offset, noise_shape=step.noise_shape, summed=step.summed
    )
    y = cut(y, step.stacked, bias_mean.shape[-1])
    return add_bias(y, KernelNoise(bias_mean, bias_log_std, bias_seed, tuple(y.shape[:-1]), step.bias_offset))


class _Product(torch.autograd.Function):
    """Eager execution, and vmap of it; a derivative that may itself be differentiated is that of the composition."""

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> Tensor:
        s1, s2, mean, log_std, bias_mean, bias_log_std, seed, bias_seed, step = arguments
        y = registry.chain(x, s1, mean, s2, log_std.exp(), seed, *step.call)
        y = cut(y, step.stacked, bias_mean.shape[-1])
        return registry.noisy_bias(y, bias_mean, bias_log_std, bias_seed, step.bias_offset)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.step = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Maybe, ...]:
        step = ctx.step
        if torch.is_grad_enabled() or forward_mode_active():
            return composed_backward(
                lambda *operands: _composed_over(step.batch, operands, step),
                ctx.saved_tensors,
                ctx.needs_input_grad,
                grads[0],
            )
        x, s1, s2, mean, log_std, _, bias_log_std, seed, bias_seed = ctx.saved_tensors
        by_x, by_s1, by_s2, by_mean, by_log_std, by_bias, by_bias_log_std, *_ = needs = ctx.needs_input_grad
        dy = grads[0]
        dbias, dbias_log_std = registry.noisy_bias_backward(
            dy, bias_log_std, bias_seed, step.bias_offset, by_bias | by_bias_log_std << 1
        )
        shape = (*step.call[1], x.shape[-1])
        if dy.shape != shape:  # what was cut off had no part in the result: its gradient is zero
            missing = prod(shape[dy.ndim - 1 :]) - dy.shape[-1]
            dy = (pad(dy, (0, missing)) if missing else dy).reshape(shape)
        mask = by_x | by_s1 << 1 | by_mean << 2 | by_s2 << 3 | by_log_std << 4
        std = log_std.exp()
        dx, ds1, dmean, ds2, dstd = registry.chain_backward(dy, x, s1, mean, s2, std, seed, *step.call, mask)
        dlog_std = dstd * std if by_log_std else None
        parts = (dx, ds1, ds2, dmean, dlog_std, dbias, dbias_log_std)
        return *(part if need else None for part, need in zip(parts, needs, strict=False)), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, step = inputs
        front = in_front(in_dims[:-1], tensors, info.batch_size)
        return record(_Product, *front, step.over(info.batch_size)), 0


def _composed_over(axes: int, operands: Sequence[Maybe], step: _Step) -> Tensor:
    """The composition under as many vmaps as the operands have axes in front."""
    if axes == 0:
        return _composed(*operands, step)
    dims = (tuple(None if operand is None else 0 for operand in operands),)
    y: Tensor = torch.func.vmap(lambda rest: _composed_over(axes - 1, rest, step), in_dims=dims)(tuple(operands))
    return y
