"""Which draw a layer uses: a fresh one, a fixed one, or the mean."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from whvi.caller import warn_caller
from whvi.errors import ArgumentError, ShapeError
from whvi.posterior import Posterior

Shape = tuple[int, ...]
Entry = TypeVar("Entry")


class Draw(NamedTuple):
    """Names a draw of all random vectors of a layer: noise is a function of a seed, so a seed is all that is kept."""

    seed: Tensor
    """int64 scalar, from ``whvi.ops.draw_seed``."""
    shape: Shape | None = ()
    """(): one draw. (S,): S of them, for S equal parts of a batch. None: one for each example."""
    rows: int = 1
    """Rows of the batch for each of these draws, where that is known: an input whose first axis is no multiple of all
    of them is something else than rows, and a ``PartsError``. For None, all rows of the batch."""
    shared: Mapping[Posterior, tuple[Tensor, int]] | None = None
    """Random vectors that an earlier layer of the model has too, with the seed and the stream that they have there."""


FRESH = Draw(torch.empty((), dtype=torch.int64, device="meta"), rows=0)
"""Stands for a draw that is still to be made."""


def is_fresh(draw: Draw | None) -> bool:
    """Whether a draw is still to be made; not by identity, which torch.compile of torch 2.10 cannot trace."""
    return draw is not None and draw.rows == 0


class PartsError(ShapeError):
    """The first axis of an input cannot be divided among draws: it is not rows, or not as many as there should be."""


Draws = Mapping[nn.Module, Draw | None]
"""The draw of each layer; None stands for the mean."""


_active = threading.local()
"""Its ``draws`` are fixed in this thread. Not a subclass with a default, which torch.compile would not see change."""


def fixed_draws() -> Draws | None:
    """The draws that are fixed in this thread by ``sampling`` and ``mean_mode``, if any."""
    draws: Draws | None = getattr(_active, "draws", None)
    return draws


def entry_of(module: nn.Module, entries: Mapping[Any, Entry], default: Entry) -> Entry:
    """What a mapping by modules has for one of them.

    Where modules are shared, torch.export calls proxies of them: other objects with the attributes of the module.
    """
    if module not in entries and torch.compiler.is_exporting():
        return next((entry for key, entry in entries.items() if vars(key) is vars(module)), default)
    return entries.get(module, default)


@contextmanager
def fixing(draws: Draws) -> Iterator[Draws]:
    """Fix draws in this thread for the length of a block; blocks may be nested, the inner one counts."""
    before = fixed_draws()
    _active.draws = draws if before is None else {**before, **draws}
    try:
        yield draws
    finally:
        _active.draws = before


def batch_or_example(draws: str) -> str:
    """For what a draw of weights is used: all rows ("batch"), or one ("example").

    Version 0.1 called the former "function" in predictions: that works for one release, with a DeprecationWarning.
    """
    if draws == "function":
        warn_caller("draws='function' is now called 'batch'")
        return "batch"
    if draws not in ("batch", "example"):
        raise ArgumentError(f"draws must be 'batch' or 'example', got {draws!r}")
    return draws
