"""Which rows are not trained on."""

import numpy as np
import torch
from numpy.typing import NDArray

from whvi.errors import ArgumentError
from whvi.inference.seeds import mix
from whvi.sklearn.parameters import Parameters

LEAST_APART = 10
"""Rows to calibrate by; with fewer, predictions stay as they are."""
MOST_APART = 1_000
"""Rows that members together leave out to calibrate by, at most: the spread is one number."""
FEW = 0.02
"""Of the rows: no loss if no member learns from them."""


def held_out(
    rows: int, parameters: Parameters, members: int, seed: int, groups: int | None = None
) -> list[NDArray[np.bool_]]:
    """Which rows are not trained on, (N,) of truth values: of each member, or one for all; none unless needed.

    To calibrate, each member leaves out rows of its own, so that the others learn from them; with ``groups``, in which
    members take turns, each group does. In large tables all leave out the same few, so that there is one copy of the
    rest.
    """
    share = parameters.validation_fraction
    if parameters.early_stopping:
        return [apart(rows, share, seed)]
    if not parameters.calibrate or share * rows < LEAST_APART:
        return [np.zeros(rows, dtype=bool)]
    if FEW * rows >= MOST_APART:
        return [apart(rows, min(share, MOST_APART / rows), seed)]
    groups = min(groups or members, members)
    share = min(share, MOST_APART / (groups * rows))
    return [apart(rows, share, seed, member % groups) for member in range(members)]


def apart(rows: int, share: float, seed: int, part: int = 0) -> NDArray[np.bool_]:
    """Which of the rows are not to be trained on: a random share of them, at least one and not all; none for 0.

    Parts 0, 1, ... have no row in common as long as there are rows that none of them has.

    >>> apart(4, 0.5, seed=0).sum(), apart(4, 0.01, seed=0).sum(), apart(4, 0.0, seed=0).sum()
    (np.int64(2), np.int64(1), np.int64(0))
    """
    chosen = np.zeros(rows, dtype=bool)
    if share == 0.0:
        return chosen
    if rows < 2:
        raise ArgumentError(f"early stopping needs 2 different rows, got n_samples = {rows}; use early_stopping=False")
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(mix(seed, "validation rows")))
    count = min(rows - 1, max(1, round(share * rows)))
    chosen[order.roll(-part * count)[:count].numpy()] = True
    return chosen
