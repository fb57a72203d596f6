"""Sums of chains for a backend whose kernels support only blocks: summands are laid out as blocks and summed
afterwards.

Unlike the native kernel, this stores a result for each summand.
"""

from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor

from whvi.ops import fallback
from whvi.ops.canonical import Maybe, Sizes


def forward(chain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``fallback.chain`` from ``chain`` of operands (R, B or 1, K or 1, D), rows, blocks and ``_noise``."""

    def of_sums(*args: Any) -> Tensor:
        *operands, seed, offset, sizes, scale = args
        noise = _noise(sizes)
        if noise is None:
            return fallback.chain(*args)
        summands, blocks = sizes.terms * sizes.columns, sizes.blocks
        y = chain(*(_merged(t, sizes) for t in operands), seed, offset, sizes.rows, summands * blocks, *noise, scale)
        return y if summands == 1 else y.unflatten(2, (summands, blocks)).sum(2)

    return of_sums


def backward(chain_backward: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """``fallback.chain_backward`` likewise."""

    def of_sums(dy: Tensor, *args: Any) -> tuple[Tensor, ...]:
        *operands, seed, offset, sizes, scale, needs = args
        noise = _noise(sizes)
        if noise is None:
            return fallback.chain_backward(dy, *args)
        blocks = sizes.terms * sizes.columns * sizes.blocks
        parts = chain_backward(
            _merged(dy[:, :, None, None].expand(-1, -1, sizes.terms, sizes.columns, -1, -1), sizes),
            *(_merged(t, sizes) for t in operands),
            seed, offset, sizes.rows, blocks, *noise, scale, needs,
        )  # fmt: skip
        return tuple(
            part if t is None or part.ndim == 1 else _split(part, sizes).sum_to_size(t.shape)
            for t, part in zip(operands, parts, strict=True)
        )

    return of_sums


def _merged(t: Maybe, sizes: Sizes) -> Maybe:
    """Terms, columns and blocks as one axis: (R, B, T, C, K, D) -> (R, B, T C K, D), or 1 in place of an axis."""
    if t is None:
        return None
    alike = prod(t.shape[2:5]) == 1
    return (t if alike else t.expand(*t.shape[:2], *_summands(sizes), t.shape[-1])).flatten(2, 4)


def _split(part: Tensor, sizes: Sizes) -> Tensor:
    """The inverse."""
    whole: Tensor = part.unflatten(2, _summands(sizes) if part.shape[2] > 1 else (1, 1, 1))
    return whole


def _summands(sizes: Sizes) -> tuple[int, int, int]:
    return sizes.terms, sizes.columns, sizes.blocks


def _noise(sizes: Sizes) -> tuple[int, int] | None:
    """How many blocks of a row have numbers of their own, and how many neighbours share them; None if it is mixed."""
    own = [size > 1 for size in sizes.noise[1:]]
    inside = [i for i, size in enumerate(_summands(sizes)) if size > 1 and any(own)]
    inside = [i for i in inside if own.index(True) <= i <= 2 - own[::-1].index(True)]
    if not all(own[i] for i in inside):
        return None
    last = max(inside, default=2)
    return prod(sizes.noise[1:]), prod(_summands(sizes)[last + 1 :]) if inside else 1
