"""A Gaussian bias with a separate draw for every row, as a differentiable function."""

from typing import Any

import torch
from torch import Tensor

from whvi.errors import DeviceError, DtypeError, InputTypeError, ShapeError
from whvi.ops import fallback, registry
from whvi.ops.checks import FLOATING, HALF, check_offset, check_operand, widened
from whvi.ops.noise import KernelNoise, as_seed, value_of
from whvi.ops.recording import in_front, in_graph, record
from whvi.ops.torch_private import forward_mode_active, watched


def noisy_bias(y: Tensor, mean: Tensor, log_std: Tensor, seed: int | Tensor, offset: int = 0) -> Tensor:
    """``y + mean + exp(log_std) * eps`` in one pass, the noise drawn in the kernel and never stored.

    Args:
        y: (..., N) with any N >= 1; float32, float64, bfloat16 or float16 (the last two are computed in float32).
        mean, log_std: (N,), of the compute dtype or the dtype of y.
        seed: an int, or an int64 scalar tensor from ``draw_seed``.
        offset: index of the first number in the stream.

    The backward pass draws the noise again.

    Law: noisy_bias(y, mean, log_std, seed, offset) == y + mean + log_std.exp() * normal(seed, offset, y.shape), in
    value and in gradients of any order.

    >>> y, mean, log_std = torch.zeros(2, 3), torch.ones(3), torch.zeros(3)
    >>> torch.equal(noisy_bias(y, mean, log_std, seed=7), 1 + registry.normal(torch.tensor([7]), 0, 6).view(2, 3))
    True
    """
    check_offset(offset)
    try:  # the kernel checks what it is given; only when it refuses is the reason looked for
        seed = as_seed(seed, y.device)
        if y.dtype in HALF:
            mean, log_std = widened(y, mean), widened(y, log_std)
        if not y.device == mean.device == log_std.device == seed.device:
            raise RuntimeError("devices differ")  # which ones, _explain says
        if in_graph():
            _explain(y, mean, log_std, seed)
            return registry.noisy_bias(y, mean, log_std, seed, offset)
        result: Tensor = record(_NoisyBias, y, mean, log_std, seed, offset)
        return result
    except (RuntimeError, AttributeError, TypeError):
        _explain(y, mean, log_std, seed)
        raise


def add_bias(y: Tensor, bias: Tensor | KernelNoise | None) -> Tensor:
    """y plus a bias, in the dtype of y; the kernel draws the noise of each row.

    Args:
        y: (..., N), the result of a product: it may be overwritten if no gradient is recorded.
        bias: (..., N) or its noise, whose ``lead`` broadcasts against that of y; None for none.
    """
    if bias is None:
        return y
    if isinstance(bias, KernelNoise) and tuple(bias.lead) == tuple(y.shape[:-1]):
        return noisy_bias(y, bias.mean, bias.log_std, bias.seed, bias.offset)
    value = value_of(bias).to(y.dtype)
    # Where nothing is recorded, a second tensor of the size of y is time lost.
    return y + value if torch.is_grad_enabled() or watched() else y.add_(value)


def _explain(y: object, mean: object, log_std: object, seed: object) -> None:
    """Raise an error if an argument does not fit."""
    if not isinstance(y, Tensor):
        raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
    if y.dtype not in FLOATING:
        raise DtypeError(f"y has dtype {y.dtype}; it must be float32, float64, bfloat16 or float16: use .to(dtype)")
    if y.ndim == 0 or y.shape[-1] == 0:
        raise ShapeError(f"y has shape {tuple(y.shape)}; a bias needs a last axis of at least one element")
    for name, operand in (("mean", mean), ("log_std", log_std)):
        check_operand(name, operand, y, of="y")
        if isinstance(operand, Tensor) and operand.ndim != 1:
            raise ShapeError(
                f"{name} has shape {tuple(operand.shape)}; it must be ({y.shape[-1]},), as all rows share it"
            )
    if isinstance(seed, Tensor) and seed.device != y.device:
        raise DeviceError(f"seed is on {seed.device}, but y is on {y.device}; use draw_seed(device=y.device)")


class _NoisyBias(torch.autograd.Function):
    """y, mean, log_std and seed, which may have common leading axes of groups.

    Derivatives that may be differentiated again are written in torch, so they need no second formula.
    """

    @staticmethod
    def forward(y: Tensor, mean: Tensor, log_std: Tensor, seed: Tensor, offset: int) -> Tensor:
        return registry.noisy_bias(y, mean, log_std, seed, offset)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, log_std, seed, ctx.offset = inputs
        ctx.save_for_backward(log_std, seed)
        if forward_mode_active():
            ctx.save_for_forward(log_std, seed)

    @staticmethod
    def jvp(ctx: Any, dy: Tensor, dmean: Tensor, dlog_std: Tensor, *_: object) -> Tensor:
        log_std, seed = ctx.saved_tensors
        return fallback.affine(dy, dmean, dlog_std * log_std.exp(), seed, ctx.offset)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        y, mean, log_std, _, _ = ctx.needs_input_grad
        needs = mean | log_std << 1
        if not needs:
            return grads[0], None, None, None, None
        differentiable = torch.is_grad_enabled() or forward_mode_active()
        operator = fallback.noisy_bias_backward if differentiable else registry.noisy_bias_backward
        at, seed = ctx.saved_tensors
        dmean, dlog_std = operator(grads[0], at, seed, ctx.offset, needs)
        return grads[0] if y else None, dmean if mean else None, dlog_std if log_std else None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        return record(_NoisyBias, *in_front(in_dims[:4], inputs[:4], info.batch_size), inputs[4]), 0


def _vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    """A replica is one more group."""
    return torch.ops.whvi.noisy_bias(*in_front(in_dims[:4], args[:4], info.batch_size), args[4]), 0


def _vmap_backward(
    info: Any, in_dims: tuple[Any, ...], *args: Any
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    front = in_front(in_dims[:3], args[:3], info.batch_size)
    needs = args[-1]
    parts = torch.ops.whvi.noisy_bias_backward(*front, *args[3:])
    return parts, tuple(0 if needs >> i & 1 else None for i in range(2))


registry.differentiate("noisy_bias", lambda *args: record(_NoisyBias, *args), _vmap)
registry.differentiate("noisy_bias_backward", fallback.noisy_bias_backward, _vmap_backward)
