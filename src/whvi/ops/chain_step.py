"""The chain as a step of autograd, with derivatives of any order and its rule for vmap."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.ops import registry
from whvi.ops.layout import Shape
from whvi.ops.recording import in_front, record
from whvi.ops.torch_private import forward_mode_active

Maybe = Tensor | None
Call = tuple[int, Shape, int, int, int, int, int, int, float]
"""The arguments of the operator besides its tensors: offset, the fields of ``Layout`` from lead to varies, scale."""


def stacked_call(call: Call, batch: int) -> Call:
    """``batch`` calls at once, with one more leading axis on each operand."""
    offset, lead, groups, *rest = call
    return offset, (batch, *lead), batch * groups, *rest  # type: ignore[return-value]


class Chain(torch.autograd.Function):
    """x, s1, g, s2, std, seed and the layout in which they make up one call."""

    @staticmethod
    def forward(x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, std: Maybe, seed: Maybe, call: Call) -> Tensor:
        return registry.chain(x, s1, g, s2, std, seed, *call)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.call = inputs
        ctx.save_for_backward(*tensors)
        if forward_mode_active():
            ctx.save_for_forward(*tensors)

    @staticmethod
    def jvp(ctx: Any, *tangents: Maybe) -> Maybe:
        *operands, seed = ctx.saved_tensors
        total: Maybe = None
        for slot in _SLOTS:
            swapped = _swapped(operands, tangents, slot)
            if swapped is not None:
                total = _plus(total, record(Chain, *swapped, seed, ctx.call))
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Maybe, ...]:
        x, s1, g, s2, std, _, _ = ctx.needs_input_grad
        needs = x | s1 << 1 | g << 2 | s2 << 3 | std << 4
        if torch.is_grad_enabled() or forward_mode_active():  # this gradient may itself be differentiated
            parts = record(_ChainBackward, grads[0], *ctx.saved_tensors, ctx.call, needs)
        else:
            parts = registry.chain_backward(grads[0], *ctx.saved_tensors, *ctx.call, needs)
        dx, ds1, dg, ds2, dstd = parts
        return (
            dx if x else None,
            ds1 if s1 else None,
            dg if g else None,
            ds2 if s2 else None,
            dstd if std else None,
            None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, call = inputs
        front = in_front(in_dims[:6], tensors, info.batch_size)
        return record(Chain, *front, stacked_call(call, info.batch_size)), 0


class _ChainBackward(torch.autograd.Function):
    """The gradients of the chain, themselves differentiable.

    F = <dy, chain(x, s1, g, s2)> is linear in each of dy, x, s1, s2 and the pair (g, std). So the derivative of
    <c, dF/dp> with respect to another slot q is dF/dq with p replaced by c: the same two operators again.
    """

    @staticmethod
    def forward(
        dy: Tensor, x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, std: Maybe, seed: Maybe, call: Call, needs: int
    ) -> tuple[Tensor, ...]:
        return registry.chain_backward(dy, x, s1, g, s2, std, seed, *call, needs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:7])
        ctx.call, ctx.needs = inputs[7:]
        ctx.set_materialize_grads(False)
        if forward_mode_active():
            ctx.save_for_forward(*inputs[:7])

    @staticmethod
    def jvp(ctx: Any, *tangents: Maybe) -> tuple[Tensor, ...]:
        dy, *operands, seed = ctx.saved_tensors
        upstream, *others = tangents[:6]
        # Every gradient is linear in dy and in the slots other than its own.
        terms = [] if upstream is None else [(upstream, operands, ctx.needs)]
        for slot in _SLOTS:
            swapped = _swapped(operands, others, slot)
            rest = ctx.needs & ~sum(1 << i for i in slot)
            if swapped is not None and rest:
                terms.append((dy, swapped, rest))
        total: list[Maybe] = [None] * 5
        for gradient, tensors, needs in terms:
            parts = record(_ChainBackward, gradient, *tensors, seed, ctx.call, needs)
            total = [
                _plus(t, part) if needs >> i & 1 else t for i, (t, part) in enumerate(zip(total, parts, strict=True))
            ]
        return tuple(
            operands[2].new_empty(0)
            if operand is None or not ctx.needs >> i & 1
            else (torch.zeros_like(operand) if part is None else part)
            for i, (operand, part) in enumerate(zip(operands, total, strict=True))
        )

    @staticmethod
    def backward(ctx: Any, *cotangents: Maybe) -> tuple[Maybe, ...]:
        dy, *operands, seed = ctx.saved_tensors
        call = ctx.call
        total: list[Maybe] = [None] * 6  # of dy, x, s1, g, s2, std
        for slot in _SLOTS:
            swapped = _swapped(operands, [c if ctx.needs >> i & 1 else None for i, c in enumerate(cotangents)], slot)
            if swapped is None:
                continue
            total[0] = _plus(total[0], record(Chain, *swapped, seed, call))
            others = sum(1 << i for i in range(5) if i not in slot and operands[i] is not None)
            parts = record(_ChainBackward, dy, *swapped, seed, call, others)
            for i in range(5):
                if others >> i & 1:
                    total[i + 1] = _plus(total[i + 1], parts[i])
        return (*total, None, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
        *tensors, call, needs = inputs
        front = in_front(in_dims[:7], tensors, info.batch_size)
        parts = record(_ChainBackward, *front, stacked_call(call, info.batch_size), needs)
        return parts, _wanted(tensors[1:], needs)


_SLOTS = ((0,), (1,), (2, 4), (3,))
"""The chain is linear in each of x, s1, (g, std) and s2."""


def _swapped(operands: Sequence[Maybe], others: Sequence[Maybe], slot: tuple[int, ...]) -> list[Maybe] | None:
    """The operands with those of one slot replaced; None when there is nothing to put there."""
    if all(others[i] is None for i in slot):
        return None
    swapped = list(operands)
    for i in slot:
        operand, other = operands[i], others[i]
        if operand is not None:
            swapped[i] = torch.zeros_like(operand) if other is None else other
    return swapped


def _wanted(operands: Sequence[Maybe], needs: int) -> tuple[int | None, ...]:
    """Batch axis of each gradient: first where it was asked for, none where it is empty."""
    return tuple(0 if operands[i] is not None and needs >> i & 1 else None for i in range(5))


def _plus(a: Maybe, b: Tensor) -> Tensor:
    return b if a is None else a + b


def _vmap_chain(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    front = in_front(in_dims[:6], args[:6], info.batch_size)
    return torch.ops.whvi.chain(*front, *stacked_call(args[6:], info.batch_size)), 0


def _vmap_chain_backward(
    info: Any, in_dims: tuple[Any, ...], *args: Any
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    *call, needs = args[7:]
    front = in_front(in_dims[:7], args[:7], info.batch_size)
    parts = torch.ops.whvi.chain_backward(*front, *stacked_call(tuple(call), info.batch_size), needs)
    return parts, _wanted(args[1:6], needs)


registry.differentiate("chain", lambda *args: record(Chain, *args[:6], args[6:]), _vmap_chain)
registry.differentiate(
    "chain_backward",
    lambda *args: record(_ChainBackward, *args[:7], args[7:-1], args[-1]),
    _vmap_chain_backward,
)
