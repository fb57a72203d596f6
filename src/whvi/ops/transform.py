"""The fast Walsh-Hadamard transform as a differentiable function."""

from typing import Any

import torch
from torch import Tensor

from whvi.ops import registry
from whvi.ops.checks import check_input, check_out, check_scale
from whvi.ops.recording import must_record, record, watched
from whvi.ops.torch_private import below_autograd

_operator = torch.ops.whvi.fwht.default


def fwht(x: Tensor, *, scale: float = 1.0, out: Tensor | None = None) -> Tensor:
    """Walsh-Hadamard transform ``scale * H x`` on the last axis, in natural (Sylvester) order.

    Args:
        x: (..., D) with D a power of two; float32, float64, bfloat16 or float16 (the last two are computed in float32).
            It is never changed, unless it is also given as ``out``.
        scale: D ** -0.5 makes the transform orthonormal and its own inverse.
        out: where to write, a contiguous tensor like x; no gradients are recorded then.

    Law: fwht(x) == x @ hadamard(D), and fwht(fwht(x)) == D * x.

    >>> fwht(torch.tensor([1.0, 0.0, 2.0, 0.0]))
    tensor([ 3.,  3., -1., -1.])
    """
    try:  # the kernel checks what it is given; only when it refuses is the reason looked for
        if type(scale) is not float:
            check_scale(scale)
        if out is None:
            if not (x.requires_grad or watched()):
                with below_autograd():  # nothing watches: no need to ask again, as registry.fwht would
                    transformed: Tensor = _operator(x, scale)
                return transformed
            if must_record(x):
                y: Tensor = record(_Transform, x, scale)
                return y
            return registry.fwht(x, scale)
    except (RuntimeError, AttributeError, TypeError):
        _explain(x, scale)
        raise
    _explain(x, scale)
    check_out(x, out)
    registry.fwht_out(x, scale, out)
    torch.autograd.graph.increment_version(out)
    return out


def _explain(x: object, scale: object) -> None:
    check_input("x", x)
    check_scale(scale)


class _Transform(torch.autograd.Function):
    """H is linear and symmetric: gradients and tangents are transforms themselves, to any order."""

    @staticmethod
    def forward(x: Tensor, scale: float) -> Tensor:
        return registry.fwht(x, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return fwht(grads[0], scale=ctx.scale), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return fwht(tangents[0], scale=ctx.scale)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, None], x: Tensor, scale: float) -> tuple[Tensor, int | None]:
        batch, _ = in_dims
        return (fwht(x, scale=scale), None) if batch is None else (fwht(x.movedim(batch, 0), scale=scale), 0)


def _vmap(info: Any, in_dims: tuple[int, None], x: Tensor, scale: float) -> tuple[Tensor, int]:
    return torch.ops.whvi.fwht(x.movedim(in_dims[0], 0), scale), 0


registry.differentiate("fwht", _Transform.apply, _vmap)
