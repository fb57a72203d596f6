"""Triton for CUDA tensors: functions of the operands of the ``whvi::`` operators, which launch ``triton_kernels``.

``registry`` registers them, ``blockwise`` makes sums of them. With ``TRITON_INTERPRET=1`` set before this module is
imported, CPU tensors work too.

Law: the transform, the chain and the normals have the bits of ``reference``: additions come in the same order, products
and sums are never contracted, square root and division are correctly rounded. Where m > 1, they are equal up to
rounding. Gradients are summed without atomics.
"""

from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor

from whvi.ops.checks import compute_dtype
from whvi.ops.fallback import Gradients
from whvi.ops.orders import is_order, paley, split
from whvi.ops.triton_kernels import chain_backward_kernel, chain_kernel, fwht_kernel, normal_kernel

_TILE = 2048  # elements of a tile made of several short lines
_PASS = 4096  # length of one pass over lines that are too long for one program
_PROGRAMS = 256  # programs that share the rows of a backward call; fixed, so shapes alone set the order of summation


def _one_program(x: Tensor) -> bool:
    """Whether a line fits into the shared memory of one program, through which its butterflies exchange data."""
    memory = torch.cuda.get_device_properties(x.device).shared_memory_per_multiprocessor if x.is_cuda else 2**18
    return bool(triton.next_power_of_2(x.shape[-1]) * compute_dtype(x.dtype).itemsize < memory)


def _launch(kernel: Any, programs: int, *arguments: Any, on: Tensor, **meta: Any) -> None:
    if programs:
        with torch.cuda.device_of(on):
            kernel[(programs,)](*arguments, **meta, enable_fp_fusion=False)


def _tile(lines: int, size: int, elements: int, per_thread: int) -> dict[str, int]:
    """Lines of ``size`` in tiles of about so many elements, in as many warps as leave each thread so many of them."""
    (m, piece), padded = split(size), triton.next_power_of_2(size)
    count = min(triton.next_power_of_2(max(lines, 1)), max(elements // padded, 1))
    if m > 1:
        count = max(count, 16 // piece)  # the least that a product of matrices takes
    warps = min(max(count * padded // (32 * per_thread), 1), 32)
    return {"T": count, "LOG_D": (padded - 1).bit_length(), "LOG_M": (m - 1).bit_length(), "num_warps": warps}


@cache
def _matrix(m: int, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """H_m with rows and columns of zeros up to a power of two; None for m = 1, which has no stage of its own."""
    missing = triton.next_power_of_2(m) - m
    return None if m == 1 else torch.nn.functional.pad(paley(m), (0, missing, 0, missing)).to(device, dtype)


def _order(x: Tensor) -> tuple[Tensor | None, int]:
    """What a kernel is told of the order of the last axis: the matrix of its stage, and the size."""
    size = x.shape[-1]
    return _matrix(split(size)[0], compute_dtype(x.dtype), x.device), size


def fwht(x: Tensor, scale: float) -> Tensor:
    """scale * H x on the last axis; rows of any leading shape (..., D)."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    fwht_out(x, scale, out)
    return out


def fwht_out(x: Tensor, scale: float, out: Tensor) -> None:
    """``fwht`` into a contiguous ``out``, which may be x. A long line takes a pass for each factor of H_a kron H_b."""
    source, compute, rest = x.contiguous(), compute_dtype(x.dtype), x.shape[-1] if x.dim() else 0
    if not is_order(rest) or not x.is_floating_point() or x.itemsize < 2:
        raise RuntimeError(f"fwht takes real numbers and an order m 2^k of them, got {x.dtype} {tuple(x.shape)}")
    strides = [1]
    if not _one_program(x):  # the first pass has the factor of order m whole
        strides = sorted({min(s, split(rest)[1]) for s in (_PASS**2, _PASS, 1) if s < rest}, reverse=True)
    between = out if len(strides) == 1 or out.dtype == compute else torch.empty_like(source, dtype=compute)
    for stride in strides:
        length, rest = rest // stride, stride
        lines = x.numel() // length
        # Eight neighbouring lines of a strided pass fill a memory transaction.
        tile = _tile(lines, length, _TILE if stride == 1 else max(_TILE, 8 * length), 16)
        target, factor = (out, scale) if stride == 1 else (between, 1.0)
        matrix = _matrix(split(length)[0], compute, x.device)
        _launch(fwht_kernel, triton.cdiv(lines, tile["T"]), source, target, lines, stride, factor, matrix, length,
                on=x, **tile)  # fmt: skip
        source = target


def normal(seed: Tensor, offset: int, numel: int) -> Tensor:
    """Seeds (R,) to standard normals (R, numel)."""
    out = torch.empty(seed.shape[0], numel, dtype=torch.float32, device=seed.device)
    programs = seed.shape[0] * triton.cdiv(numel, _TILE)
    _launch(normal_kernel, programs, seed, out, offset, numel, on=seed, D=_TILE, GROUPED=offset % 64 == 0, num_warps=4)
    return out


def _views(shape: tuple[int, ...], *operands: Tensor | None) -> list[tuple[Any, ...] | None]:
    return [None if t is None else (t, *t.expand(shape).stride()[:3]) for t in operands]


def _long(x: Tensor, g: Tensor, s2: Tensor | None, std: Tensor | None, seed: Tensor | None,
          offset: int, rows: int, blocks: int, noise_blocks: int, repeats: int,
          ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """H(s2 * x) and ``_sampled``, of lines that no program holds whole: each transform passes through memory anyway."""
    v = fwht(x.to(g.dtype) if s2 is None else x * s2, 1.0)
    if std is None or seed is None:
        return v, g, g
    eps = normal(seed, offset, rows * noise_blocks * x.shape[3]).view(-1, rows, noise_blocks, x.shape[3])
    if 1 < noise_blocks < blocks:
        index = torch.arange(blocks, device=x.device) // repeats % noise_blocks
        eps = eps.index_select(2, index)
    return v, g + std * eps, eps


def chain(x: Tensor, s1: Tensor | None, g: Tensor, s2: Tensor | None, std: Tensor | None, seed: Tensor | None,
          offset: int, rows: int, blocks: int, noise_blocks: int, repeats: int, scale: float) -> Tensor:  # fmt: skip
    """scale * s1 * H(g * H(s2 * x)), (R, B, K, D), of operands (R, B or 1, K or 1, D).

    Block k takes the numbers k // repeats % noise_blocks of its row's noise.
    """
    shape = (x.shape[0], rows, blocks, x.shape[3])
    if not _one_program(x):
        v, z, _ = _long(x, g, s2, std, seed, offset, rows, blocks, noise_blocks, repeats)
        w = fwht(z * v, scale)
        return (w if s1 is None else w * s1).expand(shape).to(x.dtype).contiguous()
    y, tile = x.new_empty(shape), _tile(rows, shape[3], _TILE, 16)
    programs = shape[0] * blocks * triton.cdiv(rows, tile["T"])
    noise = None if seed is None else (seed, offset, noise_blocks, repeats)
    _launch(chain_kernel, programs, y, *_views(shape, x, s1, g, s2, std), noise, rows, blocks, scale, *_order(x),
            on=x, GROUPED=shape[3] % 64 == offset % 64 == 0, **tile)  # fmt: skip
    return y


def chain_backward(dy: Tensor, x: Tensor, s1: Tensor | None, g: Tensor, s2: Tensor | None, std: Tensor | None,
                   seed: Tensor | None, offset: int, rows: int, blocks: int, noise_blocks: int, repeats: int,
                   scale: float, needs: int) -> Gradients:  # fmt: skip
    """Gradients of x, s1, g, s2, std; those not requested by bit i of ``needs`` are empty."""
    operands, parts = (x, s1, g, s2, std), list[Tensor | None]()
    wanted = [t if needs >> i & 1 else None for i, t in enumerate(operands)]
    if not _one_program(x):
        v, z, eps = _long(x, g, s2, std, seed, offset, rows, blocks, noise_blocks, repeats)
        dz = fwht(dy.to(g.dtype) if s1 is None else dy * s1, scale)
        da = fwht(dz * z, 1.0)
        parts = [da if s2 is None else da * s2, fwht(z * v, scale) * dy, dz * v, da * x, dz * v * eps]
    else:
        groups, size = x.shape[0], x.shape[3]
        tile = _tile(rows, size, _TILE, 8)
        steps = max(triton.cdiv(triton.cdiv(rows, tile["T"]) * groups * blocks, _PROGRAMS), 1)
        chunks = triton.cdiv(rows, tile["T"] * steps)
        per_row = tuple(t is not None and t.shape[1] == rows for t in operands)
        for t, own in zip(wanted, per_row, strict=True):  # sums over chunks, and over blocks, are left to torch
            shape = (groups, rows if own else chunks, blocks, size)
            parts.append(None if t is None else t.new_empty(shape, dtype=t.dtype if t.shape == shape else g.dtype))
        noise = None if seed is None else (seed, offset, noise_blocks, repeats)
        _launch(chain_backward_kernel, groups * blocks * chunks, tuple(parts), *_views(dy.shape, dy, *operands), noise,
                rows, blocks, scale, chunks, steps, *_order(x), on=x, GROUPED=size % 64 == offset % 64 == 0,
                PER_ROW=per_row, **tile)  # fmt: skip
    results = [
        g.new_empty(0) if t is None or part is None else part.sum_to_size(t.shape).to(t.dtype)
        for t, part in zip(wanted, parts, strict=True)
    ]
    return results[0], results[1], results[2], results[3], results[4]
