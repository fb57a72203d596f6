"""The truth: slow, obvious torch code that every backend is compared with.

``butterflies`` keeps the order of additions of the native kernel (largest distance first): the two agree bit for bit.
"""

import torch
from torch import Tensor

from whvi.ops import constants as const
from whvi.ops.orders import additions, paley, split

_MASK32 = 0xFFFFFFFF
_GROUP, _LANES = 64, 16


def hadamard(size: int, *, dtype: torch.dtype = torch.float64, device: torch.device | None = None) -> Tensor:
    """The Hadamard matrix H_m kron H_(2^k) of order size = m 2^k, the second factor in Sylvester's order: (size, size).

    Law: it is symmetric, and its square is size * I.

    >>> hadamard(2)
    tensor([[ 1.,  1.],
            [ 1., -1.]], dtype=torch.float64)
    """
    m, piece = split(size)
    matrix, half = torch.ones(piece, piece, dtype=dtype, device=device), 1
    while half < piece:
        known, rest = matrix[:half, :half], slice(half, 2 * half)
        matrix[:half, rest] = matrix[rest, :half] = known
        matrix[rest, rest] = -known
        half *= 2
    return matrix if m == 1 else torch.kron(paley(m).to(matrix), matrix)


def _added(values: list[Tensor], which: tuple[int, ...]) -> Tensor:
    total = values[which[0]]
    for i in which[1:]:
        total = total + values[i]
    return total


def _paley_half(x: list[Tensor], own: list[Tensor], m: int) -> list[Tensor]:
    """Every other row of H_m: what comes from the sums (or differences) x, plus what each row has besides."""
    pairs, sums = additions(m)
    values = x[1:]
    for a, b in pairs:
        values.append(values[a] + values[b])
    everything = _added(values, sums[-1])
    rest = x[0] - everything
    others = [rest + 2 * (_added(values, which) + w) for which, w in zip(sums[:-1], own[1:], strict=True)]
    return [everything + own[0], *others]


def paley_stage(x: Tensor, m: int) -> Tensor:
    """H_m on the last axis but one of x (..., m, n), by ``orders.additions``."""
    u, v = x[..., 0::2, :].unbind(-2), x[..., 1::2, :].unbind(-2)
    p, d = [a + b for a, b in zip(u, v, strict=True)], [a - b for a, b in zip(u, v, strict=True)]
    even = _paley_half(p, [d[0], *u[1:]], m)
    odd = _paley_half(d, [-p[0], *(-b for b in v[1:])], m)
    return torch.stack([row for pair in zip(even, odd, strict=True) for row in pair], -2)


def butterflies(x: Tensor, scale: float = 1.0) -> Tensor:
    """H x on the last axis: the stage of order m, if m > 1, then those of distance 2^k / 2, ..., 1.

    float16 and bfloat16 are computed in float32.

    Law: butterflies(x) == x @ hadamard(D) up to rounding.
    """
    compute = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    size = x.shape[-1]
    m, piece = split(size)
    if m > 1:
        compute = paley_stage(compute.reshape(*x.shape[:-1], m, piece), m).reshape(x.shape)
    distance = piece // 2
    while distance >= 1:
        pairs = compute.reshape(*x.shape[:-1], size // (2 * distance), 2, distance)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        compute = torch.stack([a + b, a - b], -2).reshape(x.shape)
        distance //= 2
    return (compute * scale).to(x.dtype)


def chain(x: Tensor, s1: Tensor | None, g: Tensor, s2: Tensor | None, scale: float) -> Tensor:
    """scale * s1 * H(g * H(s2 * x)), by broadcasting."""
    inner = x if s2 is None else s2 * x
    outer = butterflies(g * butterflies(inner), scale)
    return outer if s1 is None else s1 * outer


def _philox(counter: Tensor, seed: int, rounds: int = const.PHILOX_ROUNDS) -> list[Tensor]:
    """Philox 4x32 on 64-bit counters; int64 tensors hold the unsigned 32-bit words."""
    words = [counter & _MASK32, (counter >> 32) & _MASK32, torch.zeros_like(counter), torch.zeros_like(counter)]
    key0, key1 = seed & _MASK32, (seed >> 32) & _MASK32
    for _ in range(rounds):
        product0, product1 = words[0] * const.PHILOX_M0, words[2] * const.PHILOX_M1
        words = [
            ((product1 >> 32) & _MASK32) ^ words[1] ^ key0,
            product1 & _MASK32,
            ((product0 >> 32) & _MASK32) ^ words[3] ^ key1,
            product0 & _MASK32,
        ]
        key0, key1 = (key0 + const.PHILOX_W0) & _MASK32, (key1 + const.PHILOX_W1) & _MASK32
    return words


def _as_int32(word: Tensor) -> Tensor:
    return torch.where(word > 0x7FFFFFFF, word - (1 << 32), word).to(torch.int32)


def _box_muller(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two words to two normals: radius from a, angle on the right half plane from b, mirrored by the last bit of a."""
    f = (a >> 1).to(torch.int32).to(torch.float32) + 0.5
    i = f.view(torch.int32) - const.SQRT_HALF_BITS
    exponent = ((i >> 23) - 31).to(torch.float32)
    mantissa = ((i & 0x7FFFFF) + const.SQRT_HALF_BITS).view(torch.float32)
    y = (mantissa - 1.0) / (mantissa + 1.0)
    q = y * y
    square = exponent * const.E0 + y * ((q * const.L2 + const.L1) * q + const.L0)
    radius = square.double().sqrt().float()  # torch's float32 root is not always the nearest float
    t = _as_int32(b).to(torch.float32) * 2.0**-31
    p = t * t
    sine = t * (((p * const.S3 + const.S2) * p + const.S1) * p + const.S0)
    cosine = (((p * const.C4 + const.C3) * p + const.C2) * p + const.C1) * p + const.C0
    return torch.where((a & 1) == 1, -radius, radius) * cosine, radius * sine


def normal(seed: int, offset: int, numel: int, device: torch.device | None = None) -> Tensor:
    """Standard normals number ``offset`` ... ``offset + numel - 1`` of stream ``seed``, float32, shape (numel,).

    Law: number i depends on (seed, i) alone.
    """
    first, last = offset // _GROUP, -(-(offset + numel) // _GROUP)
    counter = torch.arange(first * _LANES, last * _LANES, dtype=torch.int64, device=device)
    words = _philox(counter, seed)
    numbers = [*_box_muller(words[0], words[1]), *_box_muller(words[2], words[3])]
    flat = torch.stack([n.view(-1, _LANES) for n in numbers], 1).reshape(-1)
    skip = offset - first * _GROUP
    return flat[skip : skip + numel].clone()
