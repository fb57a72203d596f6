"""The fused chain S1 H diag(g) H S2 x, with its noise drawn inside the kernel, as differentiable functions."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.errors import DeviceError
from whvi.ops import registry
from whvi.ops.checks import HALF, check_input, check_offset, check_operand, check_scale, check_shape, widened
from whvi.ops.layout import Shape, noise_layout, plan, spread
from whvi.ops.noise import as_seed, normal
from whvi.ops.recording import in_front, in_graph, record
from whvi.ops.torch_private import forward_mode_active

Maybe = Tensor | None


def chain(x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, *, scale: float | None = None) -> Tensor:
    """``scale * s1 * H(g * H(s2 * x))`` in one pass over each row, with numpy broadcasting over the leading axes.

    Args:
        x: (..., D) with D an order (``fwht``); float32, float64, bfloat16 or float16.
        s1: (..., D) outer scales, or None for ones.
        g: (..., D). For K blocks give x as (B, 1, D), s1 and s2 as (K, D), and g as (D), (K, D), (B, 1, D) or
            (B, K, D): shared, per block, per row, per row and block. The result is then (B, K, D).
        s2: (..., D) inner scales, or None for ones.
        scale: default 1 / D, two orthonormal transforms.

    The parameters are of the dtype x is computed in (float64 for float64, else float32) or of x's own.
    The backward pass recomputes from x: nothing of the size of x is stored.

    Law: chain(x, s1, g, s2) == s1 * fwht(g * fwht(s2 * x)) / D, in value and in gradients of any order.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> chain(x, None, torch.ones(2), None)
    tensor([[1., 2.],
            [3., 4.]])
    """
    return sum_of_chains(x, s1, g, s2, scale=scale, summed=False)


def sum_of_chains(
    x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, *, scale: float | None = None, summed: bool = True
) -> Tensor:
    """``chain``, summed over the axes of terms and columns without a tensor for each.

    Args:
        x, s1, g, s2: (..., T, C, K, D) with 1 where an operand is the same for all terms, columns or blocks.
        scale: default 1 / D.
        summed: false for operands without these axes: one chain.

    Law: equals ``chain(x, s1, g, s2).sum((-4, -3))``, of shape (..., K, D).
    """
    try:  # the kernel checks what it is given; only when it refuses is the reason looked for
        if x.dtype in HALF:
            s1, g, s2 = widened(x, s1), widened(x, g), widened(x, s2)
        layout = plan([x.shape[:-1], _lead(s1), g.shape[:-1], _lead(s2)], stack=True, summed=summed)
        if layout.expand:
            _explain(x, scale, s1=s1, g=g, s2=s2)  # before expand() could make a wrong last axis fit
            x, g = spread(x, layout, summed=summed), spread(g, layout, summed=summed)
            s1, s2 = (None if s is None else spread(s, layout, summed=summed) for s in (s1, s2))
        call = (0, *layout[:7], 1.0 / x.shape[-1] if scale is None else scale)
        return _run(x, s1, g, s2, None, None, call)
    except _REFUSED:
        _explain(x, scale, s1=s1, g=g, s2=s2)
        raise


def noisy_chain(
    x: Tensor,
    s1: Maybe,
    mean: Tensor,
    log_std: Tensor,
    s2: Maybe,
    seed: int | Tensor,
    offset: int = 0,
    *,
    noise_shape: Sequence[int] | None = None,
    scale: float | None = None,
) -> Tensor:
    """``chain`` with g = mean + exp(log_std) * eps, the noise drawn in the kernel and never stored.

    Args:
        x, s1, s2, scale: as in :func:`chain`.
        mean, log_std: (..., D).
        seed: an int, or an int64 scalar tensor from ``draw_seed`` (which works under vmap and torch.compile).
        offset: place in the stream of the first number.
        noise_shape: leading shape of eps; default that of the result: every row of every block has a draw of its own.
            (B, 1) for x of shape (B, 1, D) makes the blocks of a row share theirs.

    Law: noisy_chain(x, s1, mean, log_std, s2, seed, offset, noise_shape=shape)
    == chain(x, s1, mean + log_std.exp() * normal(seed, offset, (*shape, D)), s2).

    >>> x, zero = torch.ones(3, 4), torch.zeros(4)
    >>> y = noisy_chain(x, None, zero, zero, None, seed=7)
    >>> torch.allclose(y, chain(x, None, normal(7, 0, (3, 4)), None))
    True
    """
    return sum_of_noisy_chains(
        x, s1, mean, log_std, s2, seed, offset, noise_shape=noise_shape, scale=scale, summed=False
    )


def sum_of_noisy_chains(
    x: Tensor,
    s1: Maybe,
    mean: Tensor,
    log_std: Tensor,
    s2: Maybe,
    seed: int | Tensor,
    offset: int = 0,
    *,
    noise_shape: Sequence[int] | None = None,
    scale: float | None = None,
    summed: bool = True,
) -> Tensor:
    """``noisy_chain``, summed as ``sum_of_chains``; ``noise_shape`` has the axes of terms, columns and blocks, too."""
    check_offset(offset)
    if noise_shape is not None:
        check_shape("noise_shape", noise_shape)
    try:
        seed = as_seed(seed, x.device)
        std = widened(x, log_std).exp()
        if x.dtype in HALF:
            s1, mean, s2 = widened(x, s1), widened(x, mean), widened(x, s2)
        if seed.device != x.device:
            raise DeviceError(f"seed is on {seed.device}, but x is on {x.device}; use draw_seed(device=x.device)")
        leads = [x.shape[:-1], _lead(s1), mean.shape[:-1], _lead(s2), std.shape[:-1]]
        noise, layout = noise_layout(leads, noise_shape, summed=summed)
        if layout is None:
            g = mean + std * normal(seed, offset, (*noise, x.shape[-1]), dtype=std.dtype)
            return sum_of_chains(x, s1, g, s2, scale=scale, summed=summed)
        call = (offset, *layout[:7], 1.0 / x.shape[-1] if scale is None else scale)
        return _run(x, s1, mean, s2, std, seed, call)
    except _REFUSED:
        _explain(x, scale, s1=s1, mean=mean, log_std=log_std, s2=s2)
        raise


def _run(x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, std: Maybe, seed: Maybe, call: "Call") -> Tensor:
    for operand in (s1, g, s2, std):
        if operand is not None and operand.device != x.device:
            raise RuntimeError("devices differ")  # which ones, _explain says
    if type(call[-1]) is not float or call[-1] - call[-1] != 0.0:
        check_scale(call[-1])
    if in_graph():
        return registry.chain(x, s1, g, s2, std, seed, *call)
    y: Tensor = record(_Chain, x, s1, g, s2, std, seed, call)
    return y


_REFUSED = (RuntimeError, AttributeError, TypeError, IndexError, ZeroDivisionError)


def _explain(x: object, scale: object, **operands: object) -> None:
    """Raise the error that says which argument does not fit, if one does not."""
    check_input("x", x)
    check_scale(scale)
    assert isinstance(x, Tensor)
    for name, operand in operands.items():
        if operand is not None or name not in ("s1", "s2"):
            check_operand(name, operand, x)


def _lead(operand: Maybe) -> Shape | None:
    return None if operand is None else operand.shape[:-1]


Call = tuple[int, Shape, int, int, int, int, int, int, float]
"""What a call of the operator has besides its tensors: offset, then as ``Layout`` from lead to varies, then scale."""


def stacked_call(call: Call, batch: int) -> Call:
    """``batch`` such calls at once, each operand with a further axis in front."""
    offset, lead, groups, *rest = call
    return offset, (batch, *lead), batch * groups, *rest  # type: ignore[return-value]


class _Chain(torch.autograd.Function):
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
                total = _plus(total, record(_Chain, *swapped, seed, ctx.call))
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
        return record(_Chain, *front, stacked_call(call, info.batch_size)), 0


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
            total[0] = _plus(total[0], record(_Chain, *swapped, seed, call))
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


registry.differentiate("chain", lambda *args: record(_Chain, *args[:6], args[6:]), _vmap_chain)
registry.differentiate(
    "chain_backward",
    lambda *args: record(_ChainBackward, *args[:7], args[7:-1], args[-1]),
    _vmap_chain_backward,
)
