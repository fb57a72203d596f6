"""A dataset in memory."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Inputs = NDArray[np.float64] | NDArray[np.uint8]
Targets = NDArray[np.float64] | NDArray[np.int64]
Arrays = tuple[Inputs, Targets]


class DatasetKind(StrEnum):
    """What is predicted."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"
    IMAGES = "image classification"


@dataclass(frozen=True)
class LoadedDataset:
    """The rows of a dataset, raw: not shuffled, not scaled."""

    name: str
    task: DatasetKind
    x: Inputs
    """float64 (N, F); of images uint8 (N, 3, 32, 32), as published: those to train with first."""
    y: Targets
    """float64 (N, outputs) for regression, int64 (N,) in 0 ... C - 1 for classes."""
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    """Names of the outputs; empty for classes."""
    class_names: tuple[str, ...]
    """Names of the classes; empty for regression."""
    sha256: str
    """Of the file that was read; of the numbers themselves where they were computed."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.x)
