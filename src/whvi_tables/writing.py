"""Predictions to a file: csv, tsv and parquet, by the end of the name."""

import gzip
import io
from contextlib import suppress
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pandas import DataFrame, to_numeric

from whvi.errors import ArgumentError
from whvi.io import atomic
from whvi_tables.files import PARQUET, TSV, kind_of
from whvi_tables.reading import with_pyarrow

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that spreadsheets compute instead of showing it."""


def write_table(frame: DataFrame, path: Path) -> None:
    """Write a table, whole or not at all; an OSError is one of ``path``."""
    kind, packed = kind_of(path)
    file = io.BytesIO()
    if kind == PARQUET:
        with_pyarrow(lambda: frame.to_parquet(file, index=False))
    else:
        frame.to_csv(file, index=False, sep="\t" if kind == TSV else ",")
    content = gzip.compress(file.getvalue(), mtime=0) if packed else file.getvalue()
    try:
        atomic.write_bytes(path, content)
    except OSError as error:  # it names a temporary file, which says nothing to the caller
        raise OSError(error.errno, error.strerror, str(path)) from error


def without_formulas(frame: DataFrame) -> DataFrame:
    """The table with ``'`` before each text that a spreadsheet would compute, in names of columns too.

    Numbers stay as they are, also those that a table holds as text.

    >>> without_formulas(DataFrame({"=A1": ["-5", "@home", "=1+1"], "mean": [-1.0, 2.0, 3.0]})).to_dict("list")
    {"'=A1": ['-5', "'@home", "'=1+1"], 'mean': [-1.0, 2.0, 3.0]}
    """
    escaped = frame.copy(deep=False)
    for place, (_, values) in enumerate(frame.items()):
        if values.dtype.kind not in "biufcmM":
            escaped.isetitem(place, values.map(_escaped, na_action="ignore"))
    return escaped.set_axis([_escaped(name) for name in frame.columns], axis="columns")


def _escaped(value: Any) -> Any:
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) and isnan(to_numeric(text, errors="coerce")) else value


def check_writable(path: Path) -> None:
    """Raise the ArgumentError of a file or folder that could not be written, without a trace of the attempt."""
    above = path
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # it may have a name that is too long
        above = next(parent for parent in path.absolute().parents if parent.exists())
        TemporaryDirectory(dir=above).cleanup()  # rights alone do not tell: a disk may be for reading only
    except OSError as error:
        place = f"{above} is not a folder that can be written: {error.strerror}" if above != path else error.strerror
        raise ArgumentError(f"{path} cannot be written ({place}); choose another --out") from error
