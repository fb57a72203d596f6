"""Products of diagonals, permutations and transforms, and the matrices of their squared elements."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from whvi.ops import fwht
from whvi.ops.orders import split
from whvi.ops.reference import butterflies
from whvi.structure.elements import permuted

Factor = Tensor | None
"""A diagonal (floating point), the indices of a permutation (whole numbers), or None for the orthonormal transform."""


def transform(x: Tensor, scale: float) -> Tensor:
    """scale * H x on the last axis; in an exported graph by torch's own operators, so that it runs anywhere."""
    return _plain(x, scale) if torch.compiler.is_exporting() else fwht(x, scale=scale)


def _plain(x: Tensor, scale: float) -> Tensor:
    """The transform as two matrix products, H_D = H_a kron H_b; step by step for other orders than powers of two."""
    m, size = split(x.shape[-1])
    if m > 1:
        return butterflies(x, scale)
    inner = 1 << (size.bit_length() // 2)
    left, right = (torch.tensor(_signs(n), dtype=x.dtype, device=x.device) for n in (size // inner, inner))
    y: Tensor = left @ x.unflatten(-1, (size // inner, inner)) @ right * scale
    return y.flatten(-2)


def _signs(size: int) -> list[list[float]]:
    """The Hadamard matrix of a power of two: the sign at i, j is that of the bits that i and j share."""
    return [[1.0 - 2.0 * ((i & j).bit_count() % 2) for j in range(size)] for i in range(size)]


def applied(factors: Sequence[Factor], x: Tensor) -> Tensor:
    """The product L times x, for factors in the order of application: (..., D) -> (..., D)."""
    for factor in factors:
        if factor is None:
            x = transform(x, x.shape[-1] ** -0.5)
        else:
            x = factor * x if factor.is_floating_point() else permuted(x, factor)
    return x


def squared(factors: Sequence[Factor], v: Tensor) -> Tensor:
    """The matrix of the squared elements of the product L, times v: (..., D) -> (..., D).

    With at most one H, or two with a diagonal between them, this takes O(D log D); any other product is built densely.

    Law: squared(factors, v) == v @ applied(factors, I).square().

    >>> squared([None, torch.tensor([2.0, 0.0]), None], torch.tensor([1.0, 0.0]))
    tensor([1., 1.])
    """
    transforms = [i for i, factor in enumerate(factors) if factor is None]
    if not transforms:
        return _monomial(factors, v)
    first, last = transforms[0], transforms[-1]
    inside = [factor for factor in factors[first + 1 : last] if factor is not None]
    v = _monomial(factors[:first], v)
    if first == last:  # all elements of H are 1 or -1
        v = v.mean(-1, keepdim=True).expand(v.shape)
    elif len(transforms) == 2 and all(factor.is_floating_point() for factor in inside):
        v = _core(prod(inside[1:], start=inside[0]), v)
    else:
        over_units = [None if factor is None else factor.unsqueeze(-2) for factor in factors[first : last + 1]]
        columns = applied(over_units, torch.eye(v.shape[-1], dtype=v.dtype, device=v.device))
        v = (v.unsqueeze(-2) @ columns.square()).squeeze(-2)
    return _monomial(factors[last + 1 :], v)


def _monomial(factors: Sequence[Factor], v: Tensor) -> Tensor:
    """``squared`` of a product without transforms."""
    return applied([f if f is None or not f.is_floating_point() else f.square() for f in factors], v)


def _core(c: Tensor, v: Tensor) -> Tensor:
    """``squared`` of H diag(c) H.

    For D = m 2^k an index is a pair (a, u), and the element at (a, u), (b, w) is sum_p H_ap H_pb c^_p(u xor w) / D with
    the transform c^ of each of the m pieces of c. Its square depends on u and w by u xor w alone: a dyadic convolution,
    which a transform makes a product, of m x m matrices. For powers of two m is 1, and all is a number.
    """
    size = c.shape[-1]
    m, piece = split(size)
    if m == 1:
        return transform(transform(transform(c, 1.0 / size).square(), 1.0 / size) * transform(v, 1.0), 1.0)
    outer = transform(torch.eye(m, dtype=c.dtype, device=c.device), 1.0)
    spectrum = transform(c.unflatten(-1, (m, piece)), 1.0 / size)
    elements = torch.einsum("pa,pb,...pz->...abz", outer, outer, spectrum)
    kernel = transform(elements.square(), 1.0 / piece)
    return transform(
        torch.einsum("...abf,...bf->...af", kernel, transform(v.unflatten(-1, (m, piece)), 1.0)), 1.0
    ).flatten(-2)
