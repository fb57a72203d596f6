"""The product of a structured layer, W(g) x + b, and the decision how it runs."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from whvi.ops import registry
from whvi.ops.bias import add_bias
from whvi.ops.chain import sum_of_chains, sum_of_noisy_chains
from whvi.ops.chain_step import Maybe, stacked_call
from whvi.ops.layout import Shape, noise_layout
from whvi.ops.noise import KernelNoise
from whvi.ops.recording import composed_backward, in_closed_graph, in_front, only_vmap, record, under_vmap
from whvi.ops.torch_private import forward_mode_active, transforms_active, watched

Vector = Tensor | KernelNoise
"""A vector, or the Gaussian from which it is drawn where it is used."""


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
        g: (..., D), or its noise, whose ``lead`` includes the existing axes of terms, columns and
            blocks.
        bias: (..., features) or its noise; None for none.
        stacked: the result of the chain has an axis of blocks, which are concatenated.
        summed: operands have axes of terms, columns and blocks, and terms and columns are summed over; it is stacked.
        features: length to which the last axis is cut; default all of it.

    There are two ways with equal results. If g and the bias are both noise, with a draw of the bias for each row, and
    the call is in eager execution, under vmap or in a graph that is not differentiated, the whole product is one
    operator and one step of autograd, because in small layers the steps dominate. Otherwise it is the chain, then the
    bias.

    Law: equals ``add_bias(cut(chain(x, s1, g, s2)), bias)``, or that of ``sum_of_chains``, in value and in gradients of
    any order.

    >>> noise = KernelNoise(torch.zeros(4), torch.zeros(4), torch.tensor(7), (3,))
    >>> product(torch.ones(3, 4), None, noise, None, features=2).shape
    torch.Size([3, 2])
    """
    if isinstance(g, KernelNoise) and isinstance(bias, KernelNoise):
        step = _one_step(x, s1, g, s2, bias, stacked, summed)
        if step is not None:
            operands = (x, s1, s2, g.mean, g.log_std, bias.mean, bias.log_std, g.seed, bias.seed)
            try:
                if transforms_active():
                    return under_vmap(_run, _Product.vmap, *operands, step)
                return _run(*operands, step)
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


def _one_step(
    x: Tensor, s1: Maybe, g: KernelNoise, s2: Maybe, bias: KernelNoise, stacked: bool, summed: bool
) -> "_Step | None":
    """The product as one step of autograd, or None if this is not possible."""
    mean, b = g.mean, bias.mean
    if not (x.dtype == mean.dtype == b.dtype and x.device == mean.device == b.device):
        return None
    if watched() and not (only_vmap() or in_closed_graph()):
        return None
    shapes = x.shape, None if s1 is None else s1.shape, mean.shape, None if s2 is None else s2.shape, g.log_std.shape
    return _step(*shapes, g.lead, g.offset, bias.lead, bias.offset, stacked, summed)


@lru_cache(maxsize=1024)
def _step(
    x: Shape,
    s1: Shape | None,
    mean: Shape,
    s2: Shape | None,
    log_std: Shape,
    noise: Shape,
    offset: int,
    bias_noise: Shape,
    bias_offset: int,
    stacked: bool,
    summed: bool,
) -> "_Step | None":
    """The step for operands of these shapes, cached, because a network has few shapes."""
    if bias_noise != x[: -4 if summed else -2 if stacked else -1]:
        return None
    leads = [None if shape is None else shape[:-1] for shape in (x, s1, mean, s2, log_std)]
    _, layout = noise_layout(leads, noise, summed=summed)
    if layout is None:
        return None
    return _Step((offset, *layout[:7], 1.0 / x[-1], bias_offset, stacked), noise, summed)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a call has besides its tensors. Not a tuple, which torch.func would take apart and put together again."""

    call: tuple[Any, ...]
    """Of ``registry.product``: that of the chain, the offset of the bias, and whether it is stacked."""
    noise_shape: Shape
    summed: bool
    batch: int = 0
    """How many axes of vmap all operands have in front."""

    def over(self, size: int) -> "_Step":
        """The same, with one more axis of that size in front of all operands."""
        return replace(self, call=stacked_call(self.call, size), batch=self.batch + 1)


def _run(*arguments: Any) -> Tensor:
    y: Tensor = record(_Product, *arguments)
    return y


def _composed(*arguments: Any) -> Tensor:
    """The same product as two operators, which have derivatives of any order."""
    x, s1, s2, mean, log_std, bias_mean, bias_log_std, seed, bias_seed, step = arguments
    offset, *_, bias_offset, stacked = step.call
    y = sum_of_noisy_chains(x, s1, mean, log_std, s2, seed, offset, noise_shape=step.noise_shape, summed=step.summed)
    y = cut(y, stacked, bias_mean.shape[-1])
    return add_bias(y, KernelNoise(bias_mean, bias_log_std, bias_seed, tuple(y.shape[:-1]), bias_offset))


class _Product(torch.autograd.Function):
    """Eager execution, and vmap of it; a derivative that may itself be differentiated is that of the composition."""

    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        return registry.product(*arguments[:-1], *arguments[-1].call)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.step = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Maybe, ...]:
        step, needs = ctx.step, ctx.needs_input_grad
        if torch.is_grad_enabled() or forward_mode_active():
            composed = partial(_composed_over, step.batch, step)
            return composed_backward(composed, ctx.saved_tensors, needs, grads[0])
        x, s1, s2, mean, log_std, bias, bias_log_std, *_ = needs
        mask = x | s1 << 1 | mean << 2 | s2 << 3 | log_std << 4 | bias << 5 | bias_log_std << 6
        dx, ds1, dmean, ds2, *others = registry.product_backward(grads[0], *ctx.saved_tensors, *step.call, mask)
        parts = zip((dx, ds1, ds2, dmean, *others), needs, strict=False)
        return *[part if need else None for part, need in parts], None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, step = inputs
        front = in_front(in_dims[:-1], tensors, info.batch_size)
        return record(_Product, *front, step.over(info.batch_size)), 0


def _composed_over(axes: int, step: _Step, *operands: Maybe) -> Tensor:
    """The composition under as many vmaps as the operands have axes in front."""
    if axes == 0:
        return _composed(*operands, step)
    dims = tuple(None if operand is None else 0 for operand in operands)
    y: Tensor = torch.func.vmap(partial(_composed_over, axes - 1, step), in_dims=dims)(*operands)
    return y
