"""What is known of a dataset: enough to find it, to read it, and to know it again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whvi_paper.data.gratings import Gratings
from whvi_paper.data.simulators import Simulator
from whvi_paper.data.table import Arrays, DatasetKind


@dataclass(frozen=True)
class File:
    """A file that holds a dataset, by the name it has in a folder of data."""

    name: str
    parse: Callable[[bytes], Arrays]
    sha256: str | None
    """None where it is not known: then rows, features and the size of each class vouch for what was read."""
    url: str | None = None
    """Where it is published; None for our own form, which is not."""
    size: int | None = None
    """Its bytes, where it is so large that a copy is likely to be cut short."""


@dataclass(frozen=True)
class Dataset:
    """An entry of the catalogue. What is read is checked against it."""

    name: str
    task: DatasetKind
    rows: int
    features: tuple[str, ...]
    """Names of the columns of x."""
    targets: tuple[str, ...]
    """Names of the outputs, or of the classes."""
    licence: str
    origin: str
    """A page to read about it."""
    files: tuple[File, ...] = ()
    """Any one of them will do: our own form, then the published one."""
    class_sizes: tuple[int, ...] | None = None
    simulator: Simulator | Gratings | None = None
    """What computes it, where there is no file."""
    note: str = ""

    @property
    def published(self) -> File | None:
        """The file that can be downloaded."""
        return next((file for file in self.files if file.url), None)

    def check(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Refuse arrays that are not those of this dataset."""
        shape = (3, 32, 32) if self.task is DatasetKind.IMAGES else (len(self.features),)
        target_shape = (len(self.targets),) if self.task is DatasetKind.REGRESSION else ()
        wanted = ((self.rows, *shape), (self.rows, *target_shape))
        if (x.shape, y.shape) != wanted:
            raise ValueError(f"x is {x.shape} and y {y.shape}, wanted {wanted[0]} and {wanted[1]}")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("some numbers are not finite")
        if self.task is DatasetKind.REGRESSION:
            return
        if y.min() < 0 or y.max() >= len(self.targets):
            raise ValueError(f"the classes are {y.min()} ... {y.max()}, wanted 0 ... {len(self.targets) - 1}")
        sizes = tuple(np.bincount(y, minlength=len(self.targets)).tolist())
        if self.class_sizes not in (None, sizes):
            raise ValueError(f"the classes have {sizes} rows, wanted {self.class_sizes}")
