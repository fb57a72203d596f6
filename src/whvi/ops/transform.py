"""The fast Walsh-Hadamard transform as a differentiable function."""

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.ops import registry
from whvi.ops.checks import check_input, check_out, check_scale
from whvi.ops.orders import split
from whvi.ops.padding import pad
from whvi.ops.recording import must_record, record
from whvi.ops.torch_private import traced, watched, without_autograd

_without_autograd = without_autograd(torch.ops.whvi.fwht.default)


def fwht(
    x: Tensor, *, scale: float = 1.0, out: Tensor | None = None, order: Literal["natural", "sequency"] = "natural"
) -> Tensor:
    """Walsh-Hadamard transform ``scale * H x`` on the last axis.

    Args:
        x: (..., D) with D = m 2^k, m one of 1, 12, 20, 28, 36; float32, float64, bfloat16 or float16 (the last two are
            computed in float32). It is never changed, unless it is also given as ``out``.
        scale: D ** -0.5 makes the transform orthonormal and its own inverse.
        out: where to write, a contiguous tensor like x; no gradients are recorded then.
        order: of the rows of H. "natural" is H_m kron H_(2^k), the second factor in Sylvester's order; "sequency" sorts
            the rows by how often they change sign (Walsh's order), for powers of two only.

    Law: fwht(x) == x @ hadamard(D), and fwht(fwht(x)) == D * x, in both orders.

    >>> fwht(torch.tensor([1.0, 0.0, 2.0, 0.0]))
    tensor([ 3.,  3., -1., -1.])
    >>> fwht(torch.tensor([1.0, 0.0, 2.0, 0.0]), order="sequency")
    tensor([ 3., -1., -1.,  3.])
    """
    if order != "natural":
        if order != "sequency":
            raise ArgumentError(f'order must be "natural" or "sequency", got {order!r:.80}')
        _explain(x, scale)
        if out is not None:
            check_out(x, out)
        # The matrix is symmetric in this order too: sorting its columns is sorting its rows.
        places = _places if traced() else _known_places  # a tracer's tensors must not outlive it
        x = x.index_select(-1, places(order, x.shape[-1]).to(x.device))
    try:  # the kernel checks what it is given; only when it refuses is the reason looked for
        if type(scale) is not float or scale - scale != 0.0:
            check_scale(scale, optional=False)
        if out is None:
            if not (x.requires_grad or watched()):
                transformed: Tensor = _without_autograd(x, scale)  # registry.fwht would ask again
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


def hadamard_transform(x: Tensor, scale: float = 1.0) -> Tensor:
    """``scale * H x`` with zeros appended up to a power of two and the result cut back: (..., d) -> (..., d).

    Signature and result are those of the package ``fast_hadamard_transform``: for another size than a power of two
    the result has lost what was cut off, and is not orthogonal. :func:`fwht` takes 12, 20, 28 and 36 times a power of
    two as they are.

    Law: hadamard_transform(x) == fwht(pad(x))[..., :d].

    >>> hadamard_transform(torch.tensor([1.0, 0.0, 2.0]))
    tensor([ 3.,  3., -1.])
    """
    if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[-1] == 0:
        _explain(x, scale)
    return fwht(pad(x), scale=scale)[..., : x.shape[-1]]


def _places(order: str, size: int) -> Tensor:
    """The place of each natural row: that at place s is the number s in Gray code, with its bits reversed."""
    if order != "sequency":
        raise ArgumentError(f'order must be "natural" or "sequency", got {order!r}')
    m, _ = split(size)
    if m != 1:
        raise ArgumentError(
            f"sequency order needs a power of two, got a last axis of {size}: several rows of the matrix of order {m} "
            'change sign equally often; use order="natural"'
        )
    place = torch.arange(size)
    gray, natural = place ^ (place >> 1), torch.zeros_like(place)
    for bit in range(size.bit_length() - 1):
        natural = natural << 1 | (gray >> bit) & 1
    return natural.argsort()


_known_places = cache(_places)


def _explain(x: object, scale: object) -> None:
    check_input("x", x)
    check_scale(scale, optional=False)


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
