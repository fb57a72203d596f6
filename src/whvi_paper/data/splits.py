"""Seeded splits into 90 % to train with and 10 % to test with, scaled by the training rows alone."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.scaling import Scaling
from whvi_paper.data.table import DatasetKind, LoadedDataset

SCALINGS = ("standard", "clipped")
TRAINING_SHARE = 0.9
CLIPPED_SHARE = 0.001
"""Of the training rows, at each end: enough to lose the broken readings of eeg, too little to lose a tail. (Below a
thousand rows it is less than one row, and little is clipped.)"""


@dataclass(frozen=True)
class Split:
    """Inputs and targets: x float32 (N, F), scaled; y float64 (N, outputs) or int64 (N,), as it is."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Scale:
    """x -> (x clipped to low ... high - mean) / std, one constant for each feature, of ``whvi.scaling``.

    Law: on the rows it was fitted to every feature has mean 0 and std 1, or is 0 where it is constant.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rest: Scaling

    @classmethod
    def fit(cls, x: NDArray[np.float64], clipped: float = 0.0) -> "Scale":
        """The constants of some rows (N, F), the share ``clipped`` of them cut off at each end.

        >>> Scale.fit(np.array([[1.0, 7.0], [3.0, 7.0]]))(np.array([[4.0, 7.5]]))
        array([[2. , 0.5]])
        """
        open_ended = np.full((2, x.shape[1]), [[-np.inf], [np.inf]])
        low, high = np.quantile(x, [clipped, 1 - clipped], axis=0) if clipped else open_ended
        return cls(low, high, Scaling.of(np.clip(x, low, high)))

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale rows (N, F)."""
        return self.rest.forward(np.clip(x, self.low, self.high))


def split(data: LoadedDataset, index: int, scaling: str = "standard") -> Split:
    """Split number ``index``: rows in the order ``np.random.default_rng(index).permutation(N)``, 90 % to train with.

    Args:
        scaling: "standard" for mean 0 and std 1 on the training rows; "clipped" to clip each feature to its 0.1 % and
            99.9 % quantiles of the training rows before, for data with broken readings such as eeg.

    Law: the training part does not depend on the values of the test rows.
    """
    if data.task is DatasetKind.IMAGES:
        raise ArgumentError(f"{data.name} has fixed splits: its first 50,000 rows train, the last 10,000 test")
    if index < 0:
        raise ArgumentError(f"split number {index} is negative; use 0, 1, 2, ...")
    if scaling not in SCALINGS:
        raise ArgumentError(f"scaling {scaling!r} is unknown; use one of: {', '.join(SCALINGS)}")
    rows = np.random.default_rng(index).permutation(len(data))
    train, test = np.split(rows, [int(TRAINING_SHARE * len(data))])
    x = cast("NDArray[np.float64]", data.x)
    scale = Scale.fit(x[train], CLIPPED_SHARE if scaling == "clipped" else 0.0)

    def part(chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(scale(x[chosen]).astype(np.float32)), torch.from_numpy(data.y[chosen])

    return Split(part(train), part(test))
