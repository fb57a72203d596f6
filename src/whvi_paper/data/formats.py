"""The files of the datasets, as they are published, read to arrays: bytes -> (x, y)."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from whvi_paper.data.table import Arrays, Targets

MOST_UNPACKED = 1 << 29
"""Bytes of a file in an archive."""
Numbers = NDArray[np.float64]
Converters = dict[int | str, Callable[[str], float]]


def regression(table: Numbers, outputs: int = 1) -> Arrays:
    """A table (N, F + outputs) whose last columns are the targets."""
    return table[:, :-outputs], table[:, -outputs:]


def classification(table: Numbers, first: int = 0) -> Arrays:
    """A table (N, F + 1) whose last column counts the classes from ``first``.

    >>> classification(np.array([[0.5, 2.0], [0.25, 1.0]]), first=1)
    (array([[0.5 ],
           [0.25]]), array([1, 0]))
    """
    return table[:, :-1], labels(table[:, -1]) - first


def labels(column: Numbers) -> NDArray[np.int64]:
    """Whole numbers (N,), which came as floating-point ones."""
    if (column != np.round(column)).any():
        raise ValueError("the labels are not whole numbers")
    return column.astype(np.int64)


def columns(
    content: bytes, delimiter: str | None = None, skip: int = 0, converters: Converters | None = None
) -> Numbers:
    """Lines of numbers, (N, columns), after ``skip`` lines of something else; ``converters`` for columns of words."""
    lines = content.decode().splitlines()[skip:]
    if not any(lines):
        raise ValueError("it holds no rows")
    return np.loadtxt(lines, delimiter=delimiter, converters=converters, comments=None, ndmin=2, encoding=None)


def word(*names: str) -> Callable[[str], float]:
    """The place of a word in a list."""
    return lambda text: float(names.index(text.strip()))


def member(content: bytes, name: str) -> bytes:
    """The file of that name in a zip archive, in whatever folder of it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = [path for path in archive.namelist() if PurePosixPath(path).name == name]
        if not found:
            raise ValueError(f"there is no {name} in the archive")
        if archive.getinfo(found[0]).file_size > MOST_UNPACKED:
            raise ValueError(f"{name} in the archive has more than {MOST_UNPACKED} bytes")
        return archive.read(found[0])


def sheet(content: bytes, number: int, width: int) -> Numbers:
    """Sheet ``number``, from 0, of an Excel workbook, old or new: rows whose first ``width`` cells are numbers.

    So neither heads nor empty rows: (N, width).
    """
    from python_calamine import CalamineWorkbook

    rows = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(number).to_python(False)
    whole = [row[:width] for row in rows if all(type(cell) in (int, float) for cell in row[:width])]
    return np.array([row for row in whole if len(row) == width], float).reshape(-1, width)


def npz(content: bytes) -> Arrays:
    """Our own form, one file for each dataset: X and y."""
    with np.load(io.BytesIO(content)) as arrays:
        return arrays["X"], arrays["y"]


def numbers(content: bytes) -> Arrays:
    """boston and yacht: the features and one target, between spaces."""
    return regression(columns(content))


def concrete(content: bytes) -> Arrays:
    """An Excel 97 workbook of 9 columns."""
    return regression(sheet(content, 0, width=9))


def energy(content: bytes) -> Arrays:
    """An Excel workbook of 8 features and 2 targets, with empty rows below."""
    return regression(sheet(content, 0, width=10), outputs=2)


def kin8nm(content: bytes) -> Arrays:
    """A head and rows between commas."""
    return regression(columns(content, ",", skip=1))


def naval(content: bytes) -> Arrays:
    """16 features and 2 targets between spaces, in a zip archive."""
    return regression(columns(member(content, "data.txt")), outputs=2)


def powerplant(content: bytes) -> Arrays:
    """The last of five sheets, which hold the same rows in different orders."""
    return regression(sheet(member(content, "Folds5x2_pp.xlsx"), 4, width=5))


def protein(content: bytes) -> Arrays:
    """A head and rows between commas, the target first."""
    return regression(np.roll(columns(content, ",", skip=1), -1, axis=1))


def eeg(content: bytes) -> Arrays:
    """ARFF: a head that ends with ``@DATA``, and rows between commas, the class last."""
    head = [line.strip().upper() for line in content.decode().splitlines()]
    return classification(columns(content, ",", skip=head.index("@DATA") + 1))


def magic(content: bytes) -> Arrays:
    """Rows between commas, the class last: g or h."""
    return classification(columns(content, ",", converters={10: word("g", "h")}))


def letter(content: bytes) -> Arrays:
    """Rows between commas, the class first: A ... Z."""
    table = columns(content, ",", converters={0: word(*"ABCDEFGHIJKLMNOPQRSTUVWXYZ")})
    return classification(np.roll(table, -1, axis=1))


def miniboo(content: bytes) -> Arrays:
    """A line with the numbers of signals and of backgrounds, then 50 numbers for each: all signals first.

    Records that are -999 throughout, where the reconstruction failed, stay: the paper counts them.
    """
    table = columns(content, skip=1)
    signals, backgrounds = map(int, content.split(b"\n", 1)[0].split())
    if signals + backgrounds != len(table):
        raise ValueError(f"it states {signals} + {backgrounds} rows but has {len(table)}")
    return table, np.repeat(np.arange(2), [signals, backgrounds])


def drive(content: bytes) -> Arrays:
    """48 features and the class 1 ... 11 between spaces."""
    return classification(columns(content), first=1)


def mocap(content: bytes) -> Arrays:
    """A zip archive with a head, a dummy record of class 0, and rows Class, User, X0, Y0, Z0 ... X11, Y11, Z11.

    A marker that was not seen is "?": it becomes 0, the origin of the frame of the hand.
    """
    rows = member(content, "Postures.csv").replace(b"?", b"0")
    table = columns(rows, ",", skip=1)
    table = table[table[:, 0] > 0]
    return classification(np.roll(table, -1, axis=1), first=1)


def cifar10(content: bytes) -> Arrays:
    """The binary version: six files of records, each a label and 3 x 32 x 32 bytes."""
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {PurePosixPath(entry.name).name: archive.extractfile(entry) for entry in archive if entry.isfile()}
        batches = [file.read() for name in names if (file := files[name])]
    records = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, 1 + 3072)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def cifar10_npz(content: bytes) -> Arrays:
    """Our own form: the images to train with, and those to test with."""
    with np.load(io.BytesIO(content)) as arrays:
        y: Targets = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return np.concatenate([arrays["x_train"], arrays["x_test"]]), y
