"""The operators in pure torch, for every device without its own kernel.

The transform is two matrix products, H_D = H_a kron H_b with a, b about sqrt(D): the fastest form torch offers. Where
D = m 2^k, the factor of order m is in H_a.
"""

from collections.abc import Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor

from whvi.ops import reference
from whvi.ops.canonical import Sizes
from whvi.ops.checks import check_input, compute_dtype
from whvi.ops.orders import split
from whvi.ops.precision import full_precision

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@cache
def _factor(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return reference.hadamard(size, dtype=dtype, device=device)


def fwht(x: Tensor, scale: float) -> Tensor:
    """scale * H x on the last axis; rows of any leading shape (..., D)."""
    check_input("x", x)
    size = x.shape[-1]
    compute = compute_dtype(x.dtype)
    inner = min(1 << size.bit_length() // 2, split(size)[1])
    left, right = _factor(size // inner, compute, x.device), _factor(inner, compute, x.device)
    square = x.reshape(-1, left.shape[0], right.shape[0]).to(compute)
    with full_precision(x):
        y = left @ square @ right * scale
    return y.to(x.dtype).reshape(x.shape)


def fwht_out(x: Tensor, scale: float, out: Tensor) -> None:
    """``fwht`` into ``out``."""
    out.copy_(fwht(x, scale))


def normal(seed: Tensor, offset: int, numel: int) -> Tensor:
    """Seeds (R,) to standard normals (R, numel)."""
    rows = [reference.normal(int(s), offset, numel, seed.device) for s in seed.tolist()]
    return torch.stack(rows) if rows else torch.empty(0, numel, device=seed.device)


def _sampled(
    g: Tensor, std: Tensor | None, seed: Tensor | None, offset: int, sizes: Sizes
) -> tuple[Tensor, Tensor | None]:
    if std is None or seed is None:
        return g, None
    groups, size = g.shape[0], g.shape[-1]
    eps = normal(seed, offset, prod(sizes.noise) * size).view(groups, *sizes.noise, size).to(g.dtype)
    return g + std * eps, eps


def chain(
    x: Tensor,
    s1: Tensor | None,
    g: Tensor,
    s2: Tensor | None,
    std: Tensor | None,
    seed: Tensor | None,
    offset: int,
    sizes: Sizes,
    scale: float,
) -> Tensor:
    """scale * s1 * H(g * H(s2 * x)), summed over terms and columns: (R, B, K, D)."""
    sampled, _ = _sampled(g, std, seed, offset, sizes)
    inner = x.to(g.dtype) if s2 is None else s2 * x
    y = fwht(sampled * fwht(inner, 1.0), scale)
    y = y if s1 is None else s1 * y
    return y.expand(x.shape[0], *sizes[:4], x.shape[-1]).sum((2, 3)).to(x.dtype).contiguous()


def chain_backward(
    dy: Tensor,
    x: Tensor,
    s1: Tensor | None,
    g: Tensor,
    s2: Tensor | None,
    std: Tensor | None,
    seed: Tensor | None,
    offset: int,
    sizes: Sizes,
    scale: float,
    needs: int,
) -> Gradients:
    """Gradients of x, s1, g, s2, std; those not requested by bit i of ``needs`` are empty."""
    sampled, eps = _sampled(g, std, seed, offset, sizes)
    dy = dy[:, :, None, None].expand(-1, -1, sizes.terms, sizes.columns, -1, -1)
    inner = x.to(g.dtype) if s2 is None else s2 * x
    v = fwht(inner, 1.0)
    dz = fwht(dy.to(g.dtype) if s1 is None else s1 * dy, scale)
    da = fwht(sampled * dz, 1.0)
    dg = dz * v
    parts = [
        (x, da if s2 is None else da * s2),
        (s1, None if s1 is None else fwht(sampled * v, scale) * dy),
        (g, dg),
        (s2, None if s2 is None else da * x),
        (std, None if eps is None else dg * eps),
    ]
    results = [
        g.new_empty(0) if operand is None or part is None or not needs >> bit & 1 else _reduced(part, operand)
        for bit, (operand, part) in enumerate(parts)
    ]
    return results[0], results[1], results[2], results[3], results[4]


def _per_row(parameter: Tensor, rows: tuple[int, ...]) -> Tensor:
    """(groups..., N) with an axis of one for each axis of the rows."""
    return parameter.reshape(*parameter.shape[:-1], *(1,) * len(rows), parameter.shape[-1])


def _noise(like: Tensor, seed: Tensor, offset: int, dtype: torch.dtype) -> Tensor:
    """Normals in the shape of ``like``, which begins with the axes of seed; by the operator, hence the device's own."""
    eps: Tensor = torch.ops.whvi.normal(seed.reshape(-1), offset, prod(like.shape[seed.ndim :]))
    return eps.reshape(like.shape).to(dtype)


def affine(y: Tensor, mean: Tensor, std: Tensor, seed: Tensor, offset: int) -> Tensor:
    """y + mean + std * eps: y (groups..., rows..., N), mean and std (groups..., N), seed (groups...)."""
    rows = y.shape[seed.ndim : -1]
    scaled = _per_row(std, rows) * _noise(y, seed, offset, std.dtype)
    return (y.to(std.dtype) + _per_row(mean, rows) + scaled).to(y.dtype)


def noisy_bias(y: Tensor, mean: Tensor, log_std: Tensor, seed: Tensor, offset: int) -> Tensor:
    """``affine`` with std = exp(log_std)."""
    return affine(y, mean, log_std.exp(), seed, offset).contiguous()


def noisy_bias_backward(dy: Tensor, log_std: Tensor, seed: Tensor, offset: int, needs: int) -> tuple[Tensor, Tensor]:
    """Gradients of mean and log_std; those not requested by bit i of ``needs`` are empty.

    Differentiable itself, to any order.
    """
    wide = dy.to(log_std.dtype)
    shape = (*seed.shape, prod(dy.shape[seed.ndim : -1]), dy.shape[-1])
    empty = log_std.new_empty(0)
    dmean = wide.reshape(shape).sum(-2) if needs & 1 else empty
    if not needs & 2:
        return dmean, empty
    moment = (wide * _noise(dy, seed, offset, wide.dtype)).reshape(shape).sum(-2)
    return dmean, moment * log_std.exp()


def moments(
    means: Sequence[Tensor],
    log_stds: Sequence[Tensor],
    square: float,
    variance: float,
    log_std: float,
    constant: float,
    stds: Sequence[Tensor] | None = None,
) -> Tensor:
    """Sum of square * m^2 + variance * exp(2 l) + log_std * l over all pairs, plus a constant; stds = exp(l)."""
    mean, logs = _joined(means), _joined(log_stds)
    std = logs.exp() if stds is None else _joined(stds)
    return square * torch.dot(mean, mean) + variance * torch.dot(std, std) + (log_std * logs.sum() + constant)


def moments_backward(
    grad: Tensor,
    means: Sequence[Tensor],
    log_stds: Sequence[Tensor],
    square: float,
    variance: float,
    log_std: float,
    stds: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Gradients of all means, then of all log_stds; differentiable themselves, to any order, without ``stds``."""
    by_mean, by_std, by_log_std = (2 * square) * grad, (2 * variance) * grad, log_std * grad
    stds = [logs.exp() for logs in log_stds] if stds is None else stds
    return [*(by_mean * mean for mean in means), *(torch.addcmul(by_log_std, by_std * std, std) for std in stds)]


def _joined(vectors: Sequence[Tensor]) -> Tensor:
    """All numbers as one vector."""
    flat = [vector.reshape(-1) for vector in vectors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def _reduced(part: Tensor, operand: Tensor) -> Tensor:
    summed = part.sum_to_size(operand.shape).to(operand.dtype)
    # An operator's result must not be a view of an input or of another result.
    return summed.clone(memory_format=torch.contiguous_format)
