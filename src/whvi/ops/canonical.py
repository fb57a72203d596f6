"""Backends that need the chain in canonical shape.

Operands are (R, B or 1, T or 1, C or 1, K or 1, D), the result is (R, B, K, D).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from whvi.ops.checks import check_input, compute_dtype

Maybe = Tensor | None


class Sizes(NamedTuple):
    """Of the axes between groups and elements; those of the noise are 1 where its numbers are shared."""

    rows: int
    terms: int
    columns: int
    blocks: int
    noise: tuple[int, ...]


def _axes(sizes: Sequence[int], varies: int, operand: int) -> tuple[int, ...]:
    """The sizes of the axes along which an operand varies, and ones."""
    return tuple(size if varies >> 4 * operand + axis & 1 else 1 for axis, size in enumerate(sizes))


def _shaped(operands: Sequence[Maybe], groups: int, sizes: Sequence[int], varies: int) -> list[Maybe]:
    compute = compute_dtype(operands[0].dtype) if operands[0] is not None else None
    shaped: list[Maybe] = []
    for i, t in enumerate(operands):
        if t is not None:
            check_input("an operand", t)
            if i > 0 and t.dtype != compute:
                raise RuntimeError("whvi: parameters must be in the compute dtype of x")
            t = t.reshape(groups, *_axes(sizes, varies, i), t.shape[-1])
        shaped.append(t)
    return shaped


def _sizes(sizes: Sequence[int], varies: int) -> Sizes:
    rows, terms, columns, blocks = sizes
    _, *own = _axes(sizes, varies, 5)
    return Sizes(rows, terms, columns, blocks, noise=(rows, *own))  # each row has noise of its own


def forward(chain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator ``whvi::chain`` from a function of canonical operands, seeds (R,), offset, ``Sizes`` and scale."""

    def operator(*args: Any) -> Tensor:
        *operands, seed, offset, lead, groups, rows, terms, columns, blocks, varies, scale = args
        sizes = (rows, terms, columns, blocks)
        y = chain(
            *_shaped(operands, groups, sizes, varies),
            seed if seed is None else seed.reshape(groups),
            offset,
            _sizes(sizes, varies),
            scale,
        )
        return y.reshape(*lead, y.shape[-1])

    return operator


def backward(chain_backward: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The operator ``whvi::chain_backward`` likewise; ``chain_backward`` takes dy (R, B, K, D) first and needs last."""

    def operator(dy: Tensor, *args: Any) -> tuple[Tensor, ...]:
        *operands, seed, offset, _, groups, rows, terms, columns, blocks, varies, scale, needs = args
        sizes = (rows, terms, columns, blocks)
        parts = chain_backward(
            dy.reshape(groups, rows, blocks, dy.shape[-1]),
            *_shaped(operands, groups, sizes, varies),
            seed if seed is None else seed.reshape(groups),
            offset,
            _sizes(sizes, varies),
            scale,
            needs,
        )
        return tuple(
            part if operand is None or part.ndim == 1 else part.reshape(operand.shape)
            for part, operand in zip(parts, operands, strict=True)
        )

    return operator
