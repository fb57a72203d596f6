"""Which draw a layer uses: a new one, a fixed one, or the mean."""

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
    """Identifies a draw of all random vectors of a layer: noise is a function of a seed, so only the seed is stored."""

    seed: Tensor
    """int64 scalar, from ``whvi.ops.draw_seed``."""
    shape: Shape | None = ()
    """(): one draw. (S,): S of them, for S equal parts of a batch. None: one for each example."""
    rows: int = 1
    """Rows of the batch for each of these draws, if known: an input whose first axis is not a multiple of all
    of them does not have rows there and raises a ``PartsError``. For None, all rows of the batch."""
    shared: Mapping[Posterior, tuple[Tensor, int]] | None = None
    """Random vectors that this layer shares with an earlier layer, with their seed and stream there."""


FRESH = Draw(torch.empty((), dtype=torch.int64, device="meta"), rows=0)
"""Marks a draw that has not been made yet."""


def is_fresh(draw: Draw | None) -> bool:
    """Whether a draw has not been made yet; not tested by identity, which torch.compile of torch 2.10 cannot trace."""
    return draw is not None and draw.rows == 0


class PartsError(ShapeError):
    """The first axis of an input cannot be divided among draws: it is not rows, or their number is wrong."""


Draws = Mapping[nn.Module, Draw | None]
"""The draw of each layer; None means the posterior mean."""


_active = threading.local()
"""Its ``draws`` are fixed in this thread. Not a subclass with a default, which torch.compile would not see change."""


def fixed_draws() -> Draws | None:
    """The draws that ``sampling`` and ``mean_mode`` have fixed in this thread, if any."""
    draws: Draws | None = getattr(_active, "draws", None)
    return draws


def entry_of(module: nn.Module, entries: Mapping[Any, Entry], default: Entry) -> Entry:
    """The entry of a mapping by modules for one of them.

    Where modules are shared, torch.export calls proxies of them: other objects with the attributes of the module.
    """
    if module not in entries and torch.compiler.is_exporting():
        return next((entry for key, entry in entries.items() if vars(key) is vars(module)), default)
    return entries.get(module, default)


@contextmanager
def fixing(draws: Draws) -> Iterator[Draws]:
    """Fix draws in this thread for a ``with`` block. Blocks may be nested; the inner one applies."""
    before = fixed_draws()
    _active.draws = draws if before is None else {**before, **draws}
    try:
        yield draws
    finally:
        _active.draws = before


def batch_or_example(draws: str) -> str:
    """Whether a draw of weights is used for all rows ("batch") or for one row ("example").

    Predictions of version 0.1 called "batch" "function". That works for one release, with a DeprecationWarning.
    """
    if draws == "function":
        warn_caller("draws='function' is now called 'batch'")
        return "batch"
    if draws not in ("batch", "example"):
        raise ArgumentError(f"draws must be 'batch' or 'example', got {draws!r}")
    return draws
