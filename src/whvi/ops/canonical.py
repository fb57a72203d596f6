"""Backends that want the chain in canonical shape: operands (R, B or 1, K or 1, D), result (R, B, K, D)."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from whvi.ops.checks import check_input, compute_dtype

Maybe = Tensor | None


def _shaped(operands: Sequence[Maybe], groups: int, rows: int, blocks: int, varies: int) -> list[Maybe]:
    compute = compute_dtype(operands[0].dtype) if operands[0] is not None else None
    shaped: list[Maybe] = []
    for i, t in enumerate(operands):
        if t is not None:
            check_input("an operand", t)
            if i > 0 and t.dtype != compute:
                raise RuntimeError("whvi: parameters must be in the compute dtype of x")
            per_row, per_block = varies >> 2 * i & 1, varies >> 2 * i + 1 & 1
            t = t.reshape(groups, rows if per_row else 1, blocks if per_block else 1, t.shape[-1])
        shaped.append(t)
    return shaped


def _noise_blocks(blocks: int, varies: int) -> int:
    return blocks if varies >> 11 & 1 else 1


def forward(chain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator ``whvi::chain`` from a function of canonical operands."""

    def operator(*args: Any) -> Tensor:
        *operands, seed, offset, lead, groups, rows, blocks, varies, scale = args
        y = chain(
            *_shaped(operands, groups, rows, blocks, varies),
            seed if seed is None else seed.reshape(groups),
            offset,
            rows,
            blocks,
            _noise_blocks(blocks, varies),
            scale,
        )
        return y.reshape(*lead, y.shape[-1])

    return operator


def backward(chain_backward: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The operator ``whvi::chain_backward`` from a function of canonical operands."""

    def operator(dy: Tensor, *args: Any) -> tuple[Tensor, ...]:
        *operands, seed, offset, _, groups, rows, blocks, varies, scale, needs = args
        parts = chain_backward(
            dy.reshape(groups, rows, blocks, dy.shape[-1]),
            *_shaped(operands, groups, rows, blocks, varies),
            seed if seed is None else seed.reshape(groups),
            offset,
            rows,
            blocks,
            _noise_blocks(blocks, varies),
            scale,
            needs,
        )
        return tuple(
            part if operand is None or part.ndim == 1 else part.reshape(operand.shape)
            for part, operand in zip(parts, operands, strict=True)
        )

    return operator
