"""The kernels of ``triton_backend``: the transform, the chain with its noise drawn in registers, and its backward.

A program holds a tile of T whole lines, each of D elements. In device code an operand is None, or a pointer and strides
along groups, rows and blocks, zero where it is broadcast. A place ``at`` is (group r, rows b (T, 1), block k, columns d
(1, D), which elements exist, their lines in a full result, the size of a line).

A line of D = m 2^k elements, m > 1, is padded inside the program to the next power of two, and its stage of order m is
a dense product.
"""

from typing import Any

import triton
import triton.language as tl

from whvi.ops import constants as const

# Triton keys its cache of compiled kernels by constants of this type; a changed plain number would go unnoticed.
_ROUNDS, _SQRT_HALF_BITS = map(tl.constexpr, (const.PHILOX_ROUNDS, const.SQRT_HALF_BITS))
_M0, _M1, _W0, _W1 = map(tl.constexpr, (const.PHILOX_M0, const.PHILOX_M1, const.PHILOX_W0, const.PHILOX_W1))
_E0, _L0, _L1, _L2 = map(tl.constexpr, (const.E0, const.L0, const.L1, const.L2))
_S0, _S1, _S2, _S3 = map(tl.constexpr, (const.S0, const.S1, const.S2, const.S3))
_C0, _C1, _C2, _C3, _C4 = map(tl.constexpr, (const.C0, const.C1, const.C2, const.C3, const.C4))


def _jit(function: Any) -> Any:
    """``triton.jit`` with a type, since Triton has none."""
    return triton.jit(function)


@_jit
def _reverse_bits(v: tl.tensor, LOG_D: tl.constexpr) -> Any:
    """Lines (T, D) in bit-reversed order: axes are renamed, no data moves."""
    for i in tl.static_range(LOG_D):
        pairs = tl.reshape(v, (v.shape[0] << i, v.shape[1] >> (i + 1), 2))
        v = tl.reshape(tl.permute(pairs, (0, 2, 1)), v.shape)
    return v


@_jit
def _butterflies(v: tl.tensor, LOG_D: tl.constexpr) -> Any:
    """H applied to each line of v (T, D), largest distance first.

    Each step takes the lowest bit of the reversed flat index and moves it to the top, so that all steps are alike. The
    compiler then uses up the bits in a thread's registers before it moves data: three exchanges for any D.
    """
    T: tl.constexpr = v.shape[0]
    if LOG_D > 0:
        v = tl.reshape(_reverse_bits(v, LOG_D), (T << (LOG_D - 1), 2))
        for _ in tl.static_range(LOG_D):
            a, b = tl.split(v)
            v = tl.reshape(tl.trans(tl.join(a + b, a - b)), (T << (LOG_D - 1), 2))
        v = _reverse_bits(tl.trans(tl.reshape(v, (1 << LOG_D, T))), LOG_D)
    return v


@_jit
def _hadamard(v: tl.tensor, matrix: tl.tensor, LOG_D: tl.constexpr, LOG_M: tl.constexpr) -> Any:
    """H applied to each line of v (T, D): the product with H_m, padded to 2^LOG_M, if any; then butterflies."""
    if LOG_M > 0:
        M: tl.constexpr = 1 << LOG_M
        N: tl.constexpr = 1 << (LOG_D - LOG_M)
        T: tl.constexpr = v.shape[0]
        i = tl.arange(0, M)
        columns = tl.reshape(tl.permute(tl.reshape(v, (T, M, N)), (0, 2, 1)), (T * N, M))
        columns = tl.dot(columns, tl.load(matrix + i[:, None] * M + i[None, :]), input_precision="ieee")
        v = tl.reshape(tl.permute(tl.reshape(columns, (T, N, M)), (0, 2, 1)), (T * M, N))
        v = tl.reshape(_butterflies(v, LOG_D - LOG_M), (T, M * N))
    else:
        v = _butterflies(v, LOG_D)
    return v


@_jit
def _philox(seed: tl.tensor, counter: tl.tensor) -> Any:
    """Four random words per 64-bit counter (Philox 4x32)."""
    a, b = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    c, d = a * 0, a * 0
    key, key2 = seed.to(tl.uint32).to(tl.uint64), (seed >> 32).to(tl.uint32).to(tl.uint64)
    for _ in tl.static_range(_ROUNDS):  # in 64 bits, where nothing overflows
        p, q = c.to(tl.uint64) * _M1, a.to(tl.uint64) * _M0
        a, b = (p >> 32).to(tl.uint32) ^ b ^ key.to(tl.uint32), p.to(tl.uint32)
        c, d = (q >> 32).to(tl.uint32) ^ d ^ key2.to(tl.uint32), q.to(tl.uint32)
        key, key2 = key + _W0, key2 + _W1
    return a, b, c, d


@_jit
def _box_muller(a: tl.tensor, b: tl.tensor) -> Any:
    """Two normals of two words: a radius and a sign from a, an angle in a half plane from b."""
    f = (a >> 1).to(tl.int32).to(tl.float32) + 0.5
    i = f.to(tl.int32, bitcast=True) - _SQRT_HALF_BITS
    exponent = ((i >> 23) - 31).to(tl.float32)
    m = ((i & 0x7FFFFF) + _SQRT_HALF_BITS).to(tl.float32, bitcast=True)
    y = tl.div_rn(m - 1.0, m + 1.0)
    q = y * y
    radius = tl.sqrt_rn(exponent * _E0 + y * ((q * _L2 + _L1) * q + _L0))
    signed = (radius.to(tl.uint32, bitcast=True) ^ (a << 31)).to(tl.float32, bitcast=True)
    t = b.to(tl.int32, bitcast=True).to(tl.float32) * 2.0**-31
    q = t * t
    sine = t * (((q * _S3 + _S2) * q + _S1) * q + _S0)
    cosine = (((q * _C4 + _C3) * q + _C2) * q + _C1) * q + _C0
    return signed * cosine, radius * sine


@_jit
def _philox_normals(seed: tl.tensor, first: tl.tensor, D: tl.constexpr, GROUPED: tl.constexpr) -> Any:
    """Normals (T, D) of one stream: each line holds the numbers first (T, 1), first + 1, ..., first + D - 1.

    GROUPED: lines begin and end at multiples of 64, so that each counter is evaluated once and serves four normals.
    """
    if GROUPED:
        a, b, c, d = _philox(seed, first // 4 + tl.arange(0, D // 4)[None, :])
        n0, n1 = _box_muller(a, b)
        n2, n3 = _box_muller(c, d)
        words = tl.reshape(tl.join(tl.join(n0, n2), tl.join(n1, n3)), (first.shape[0], D // 64, 16, 4))
        normals = tl.reshape(tl.permute(words, (0, 1, 3, 2)), (first.shape[0], D))
    else:
        index = first + tl.arange(0, D)[None, :]
        a, b, c, d = _philox(seed, (index >> 6) * 16 + (index & 15))
        low = (index & 32) == 0
        even, odd = _box_muller(tl.where(low, a, c), tl.where(low, b, d))
        normals = tl.where((index & 16) == 0, even, odd)
    return normals


@_jit
def _load(pointers: tl.tensor, mask: tl.tensor) -> Any:
    """Elements in the type they are computed in: float64 for float64, float32 for the rest; zero outside the mask."""
    v = tl.load(pointers, mask=mask, other=0.0)
    return v if v.dtype == tl.float64 else v.to(tl.float32)


@_jit
def _lines(operand: tl.tuple, at: tl.tuple) -> Any:
    """The lines (T, D) of an operand at a place."""
    pointer, r_stride, b_stride, k_stride = operand
    r, b, k, d, exists, _, _ = at
    return _load(pointer + r * r_stride + b * b_stride + k * k_stride + d, exists)


@_jit
def _times(v: tl.tensor, operand: tl.tuple, at: tl.tuple) -> Any:
    """v times an operand that may be absent."""
    return v if operand is None else v * _lines(operand, at)


@_jit
def _sampled(g: tl.tuple, std: tl.tuple, noise: tl.tuple, at: tl.tuple, GROUPED: tl.constexpr) -> Any:
    """g + std * eps and eps; g and a stand-in when there is no noise."""
    z = _lines(g, at)
    eps = z
    if noise is not None:
        seed, offset, noise_blocks, repeats = noise
        r, b, k, d, _, _, size = at
        first = offset + (b * noise_blocks + k // repeats % noise_blocks) * size
        eps = _philox_normals(tl.load(seed + r), first, d.shape[1], GROUPED).to(z.dtype)
        z = z + _lines(std, at) * eps
    return z, eps


@_jit
def _store(pointer: tl.tensor, value: tl.tensor, at: tl.tuple) -> None:
    """Write lines of a full result, contiguous (groups, rows, blocks, D)."""
    _, _, _, d, exists, line, size = at
    tl.store(pointer + line * size + d, value, mask=exists)


@_jit
def _collect(grad: tl.tensor, total: tl.tensor, value: tl.tensor, at: tl.tuple, PER_ROW: tl.constexpr) -> Any:
    """Write the gradient of an operand that has rows of its own; add up that of one that all rows share."""
    if (grad is not None) and PER_ROW:
        _store(grad, value, at)
    elif grad is not None:
        total += value
    return total


@_jit
def fwht_kernel(x: tl.tensor, out: tl.tensor, lines: tl.tensor, stride: tl.tensor, scale: tl.float64,
                matrix: tl.tensor, size: tl.tensor,
                T: tl.constexpr, LOG_D: tl.constexpr, LOG_M: tl.constexpr) -> None:  # fmt: skip
    """scale * H on T lines of elements ``stride`` apart. A program reads its lines before it writes them."""
    line = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)[:, None]
    d = tl.arange(0, 1 << LOG_D)[None, :]
    offsets = line // stride * (stride * size) + line % stride + d * stride
    exists = (line < lines) & (d < size)
    v = _hadamard(_load(x + offsets, exists), matrix, LOG_D, LOG_M)
    tl.store(out + offsets, v * tl.full((1, 1), scale, v.dtype), mask=exists)


@_jit
def normal_kernel(seed: tl.tensor, out: tl.tensor, offset: tl.tensor, numel: tl.tensor,
                  D: tl.constexpr, GROUPED: tl.constexpr) -> None:  # fmt: skip
    """D normals of one stream."""
    tiles = tl.cdiv(numel, D)
    program = tl.program_id(0).to(tl.int64)
    r, first = program // tiles, program % tiles * D + tl.arange(0, 1)[:, None]
    index = first + tl.arange(0, D)[None, :]
    tl.store(out + r * numel + index, _philox_normals(tl.load(seed + r), offset + first, D, GROUPED), index < numel)


@_jit
def chain_kernel(y: tl.tensor, x: tl.tuple, s1: tl.tuple, g: tl.tuple, s2: tl.tuple, std: tl.tuple, noise: tl.tuple,
                 rows: tl.tensor, blocks: tl.tensor, scale: tl.float64, matrix: tl.tensor, size: tl.tensor,
                 T: tl.constexpr, LOG_D: tl.constexpr, LOG_M: tl.constexpr,
                 GROUPED: tl.constexpr) -> None:  # fmt: skip
    """y = scale * s1 * H(g * H(s2 * x)) on T rows of one group and block."""
    tiles = tl.cdiv(rows, T)
    program = tl.program_id(0).to(tl.int64)
    r, k, b = program // tiles // blocks, program // tiles % blocks, program % tiles * T + tl.arange(0, T)[:, None]
    d = tl.arange(0, 1 << LOG_D)[None, :]
    at = (r, b, k, d, (b < rows) & (d < size), (r * rows + b) * blocks + k, size)
    v = _hadamard(_times(_lines(x, at), s2, at), matrix, LOG_D, LOG_M)
    z, _ = _sampled(g, std, noise, at, GROUPED)
    w = _hadamard(z * v, matrix, LOG_D, LOG_M) * tl.full((1, 1), scale, v.dtype)
    _store(y, _times(w, s1, at), at)


@_jit
def chain_backward_kernel(grads: tl.tuple, dy: tl.tuple, x: tl.tuple, s1: tl.tuple, g: tl.tuple, s2: tl.tuple,
                          std: tl.tuple, noise: tl.tuple, rows: tl.tensor, blocks: tl.tensor, scale: tl.float64,
                          chunks: tl.tensor, steps: tl.tensor, matrix: tl.tensor, size: tl.tensor, T: tl.constexpr,
                          LOG_D: tl.constexpr, LOG_M: tl.constexpr, GROUPED: tl.constexpr,
                          PER_ROW: tl.constexpr) -> None:  # fmt: skip
    """Gradients over one chunk of rows, ``steps`` tiles of T, of one group and block; activations are computed anew."""
    program = tl.program_id(0).to(tl.int64)
    r, k, chunk = program // chunks // blocks, program // chunks % blocks, program % chunks
    d = tl.arange(0, 1 << LOG_D)[None, :]
    zero = tl.zeros((T, 1 << LOG_D), g[0].dtype.element_ty)
    x_sum, s1_sum, g_sum, s2_sum, std_sum = zero, zero, zero, zero, zero
    for step in range(steps):
        b = (chunk * steps + step) * T + tl.arange(0, T)[:, None]
        at = (r, b, k, d, (b < rows) & (d < size), (r * rows + b) * blocks + k, size)
        a, c = _lines(x, at), _lines(dy, at)
        v = _hadamard(_times(a, s2, at), matrix, LOG_D, LOG_M)
        z, eps = _sampled(g, std, noise, at, GROUPED)
        w = _hadamard(z * v, matrix, LOG_D, LOG_M) * tl.full((1, 1), scale, v.dtype)
        dz = _hadamard(_times(c, s1, at), matrix, LOG_D, LOG_M) * tl.full((1, 1), scale, v.dtype)
        da = _hadamard(dz * z, matrix, LOG_D, LOG_M)
        # What no gradient is collected from, the compiler leaves out.
        x_sum = _collect(grads[0], x_sum, _times(da, s2, at), at, PER_ROW[0])
        s1_sum = _collect(grads[1], s1_sum, w * c, at, PER_ROW[1])
        g_sum = _collect(grads[2], g_sum, dz * v, at, PER_ROW[2])
        s2_sum = _collect(grads[3], s2_sum, da * a, at, PER_ROW[3])
        std_sum = _collect(grads[4], std_sum, dz * v * eps, at, PER_ROW[4])
    sums, line = (x_sum, s1_sum, g_sum, s2_sum, std_sum), (r * chunks + chunk) * blocks + k
    at = (r, chunk, k, d, d < size, line, size)
    for i in tl.static_range(5):
        if (grads[i] is not None) and (not PER_ROW[i]):
            _store(grads[i], tl.sum(sums[i], 0, keep_dims=True), at)
