"""Which draw a layer uses: a fresh one, a fixed one, or the mean."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn

Shape = tuple[int, ...]


class Draw(NamedTuple):
    """Names a draw of all random vectors of a layer: noise is a function of a seed, so a seed is all that is kept."""

    seed: Tensor
    """int64 scalar, from ``whvi.ops.draw_seed``."""
    shape: Shape | None = ()
    """(): one draw. (S,): S of them, for S equal parts of a batch. None: one for each example."""


Draws = Mapping[nn.Module, Draw | None]
"""The draw of each layer; None stands for the mean."""


class _Active(threading.local):
    """The draws that are fixed in this thread, if any."""

    draws: Draws | None = None


_active = _Active()


def is_fixed(layer: nn.Module) -> bool:
    """True inside a ``sampling`` or ``mean_mode`` block of this thread that covers the layer."""
    return _active.draws is not None and layer in _active.draws


def fixed_draw(layer: nn.Module) -> Draw | None:
    """The draw of a layer that is fixed; None for the mean."""
    assert _active.draws is not None
    return _active.draws[layer]


@contextmanager
def fixing(draws: Draws) -> Iterator[Draws]:
    """Fix draws in this thread for the length of a block; blocks may be nested, the inner one counts."""
    before = _active.draws
    _active.draws = draws if before is None else {**before, **draws}
    try:
        yield draws
    finally:
        _active.draws = before
