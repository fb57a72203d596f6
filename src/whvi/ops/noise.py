"""Standard normals by counter: number i of a stream is a pure function of (seed, i)."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whvi.annotations import check, checked, kind_of
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError
from whvi.ops import registry
from whvi.ops.checks import check_offset, check_seed, check_shape
from whvi.ops.recording import only_vmap, under_vmap
from whvi.ops.torch_private import traced

_SEEDS = 2**63 - 1
_active = threading.local()
"""Its ``seeds``, if any, are those that ``draw_seed`` gives in this thread, in traced ``graphs`` if that is true."""


class SeedsExhausted(IndexError):
    """A block of ``seeded`` drew more seeds than it was given."""


def draw_seed(generator: torch.Generator | None = None, device: torch.device | str | None = None) -> Tensor:
    """A fresh seed from torch's generator, so that ``torch.manual_seed`` governs all noise; int64, shape ().

    >>> _ = torch.manual_seed(0); a = draw_seed(); _ = torch.manual_seed(0); bool(a == draw_seed())
    True
    """
    seeds = getattr(_active, "seeds", None)
    if seeds is not None and generator is None and (_active.graphs or not traced()):
        seed: Tensor | None = next(seeds, None)
        if seed is None:
            raise SeedsExhausted("more seeds are drawn than ops.seeded was given")
        return seed if device is None else seed.to(device)
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputTypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    if device is not None and not isinstance(device, torch.device) and not traced():
        check("device", device, kind_of(torch.device))
    # A generator draws where it lives. It is named also where it is None: Inductor would draw from its own otherwise.
    source = device if generator is None else generator.device
    seed = torch.randint(_SEEDS, (), generator=generator, device=source)
    return seed if device is None else seed.to(device)


@checked
def seeds_from(key: int, shape: Sequence[int]) -> Tensor:
    """The seeds that ``draw_seed`` gives, one after the other, once ``torch.manual_seed(key)`` was called.

    >>> _ = torch.manual_seed(7)
    >>> torch.equal(seeds_from(7, (2,)), torch.stack([draw_seed(), draw_seed()]))
    True
    """
    return torch.randint(_SEEDS, tuple(shape), generator=torch.Generator().manual_seed(key))


@contextmanager
@checked
def seeded(seeds: Tensor, *, graphs: bool = False) -> Iterator[None]:
    """Make ``draw_seed`` return these seeds, one after the other, for a ``with`` block in this thread.

    Args:
        seeds: (n,), int64; one more draw than n raises ``SeedsExhausted``.
        graphs: also in traced graphs. Their seeds should be an argument of the graph, or each run of it has
            the same seeds. Otherwise graphs draw from torch's generator.

    Under vmap each element has its own noise: the noise that it has alone with its seeds.

    >>> with seeded(torch.tensor([7, 3])):
    ...     draw_seed(), draw_seed()
    (tensor(7), tensor(3))
    """
    if seeds.dtype != torch.int64 or seeds.ndim != 1:
        raise ShapeError(f"seeds must be int64 of shape (n,), got {seeds.dtype} of shape {tuple(seeds.shape)}")
    before = getattr(_active, "seeds", None), getattr(_active, "graphs", False)
    _active.seeds, _active.graphs = map(seeds.select, repeat(0), range(len(seeds))), graphs  # only those that are drawn
    try:
        yield
    finally:
        _active.seeds, _active.graphs = before


def as_seed(seed: int | Tensor, device: torch.device | None = None) -> Tensor:
    """An int or an int64 scalar tensor as the latter."""
    if isinstance(seed, int):
        if isinstance(seed, bool):
            raise InputTypeError(f"seed must be an int or an int64 tensor from draw_seed, got {seed}")
        if not -(2**63) <= seed < 2**63:
            raise ArgumentError(f"seed must fit in 64 bits, got {seed}")
        return torch.tensor(seed, dtype=torch.int64, device=device)
    check_seed(seed)
    return seed


def normal(seed: int | Tensor, offset: int, shape: Sequence[int], *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normals: the numbers ``offset``, ``offset + 1``, ... of stream ``seed`` in the given shape.

    They do not depend on threads, instruction set, or how a batch is split into calls.

    Law: normal(s, o, (m + n,)) == cat(normal(s, o, (m,)), normal(s, o + m, (n,))), bit for bit.

    >>> torch.equal(normal(7, 0, (5,))[2:], normal(7, 2, (3,)))
    True
    """
    check_offset(offset)
    check_shape("shape", shape)
    if not isinstance(dtype, torch.dtype):
        raise InputTypeError(f"dtype must be a torch.dtype, got {type(dtype).__name__}")
    if not dtype.is_floating_point:
        raise DtypeError(f"dtype must be floating point, got {dtype}")
    one, count = as_seed(seed).reshape(1), prod(shape)
    flat = (
        under_vmap(registry.normal, _vmap, one, offset, count) if only_vmap() else registry.normal(one, offset, count)
    )
    return flat.reshape(tuple(shape)).to(dtype)


class KernelNoise(NamedTuple):
    """A Gaussian vector that is drawn where it is used, and not stored if a kernel can draw it.

    Law: value() == mean + exp(log_std) * normal(seed, offset, (*lead, *mean.shape)).
    """

    mean: Tensor
    log_std: Tensor
    seed: Tensor
    lead: tuple[int, ...]
    """Leading shape of the noise; it broadcasts against that of the other operands."""
    offset: int = 0

    def value(self) -> Tensor:
        """The vector itself: (*lead, *mean.shape)."""
        noise = normal(self.seed, self.offset, (*self.lead, *self.mean.shape), dtype=self.mean.dtype)
        return torch.addcmul(self.mean, self.log_std.exp(), noise)


def value_of(vector: Tensor | KernelNoise) -> Tensor:
    """The value of a vector, drawn if it is noise."""
    return vector.value() if isinstance(vector, KernelNoise) else vector


def _vmap(info: Any, in_dims: Sequence[int | None], seed: Tensor, offset: int, numel: int) -> tuple[Tensor, int]:
    """Each replica has its own stream: (batch, R) seeds are batch * R seeds."""
    batch, _, _ = in_dims
    seeds = seed.movedim(0 if batch is None else batch, 0)
    return torch.ops.whvi.normal(seeds.reshape(-1), offset, numel).reshape(*seeds.shape, numel), 0


torch.library.register_vmap("whvi::normal", _vmap)
