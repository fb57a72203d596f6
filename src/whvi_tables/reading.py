"""Tables from files and back: csv, tsv and parquet, by the end of the name.

The fields of a csv stay the texts they are, so that ``007`` and ``NA`` come back unchanged; what a column means is
decided in one place, ``whvi_tables.columns``. Only ``1,5`` in a table of semicolons becomes ``1.5``.
"""

import io
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pandas as pd
from pandas import DataFrame, Series

from whvi.errors import ArgumentError, MissingPackageError
from whvi.io import atomic

Result = TypeVar("Result")
KINDS = (".csv", ".tsv", ".parquet")
_QUOTED = re.compile(r'"[^"]*"?')
_DECIMAL_COMMA = re.compile(r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$")


def read_table(path: Path) -> DataFrame:
    """The table of a file, with names as texts, each once, and at least one row; ArgumentError says what is wrong."""
    check_kind(path)
    if not path.exists():
        raise ArgumentError(f"{path} does not exist; give a {_listed(KINDS)} file")
    if not path.is_file():
        raise ArgumentError(f"{path} is not a file; give a {_listed(KINDS)} file")
    frame = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path)
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"{path} has more than one column called {_listed(twice)}; rename them")
    if frame.empty:
        raise ArgumentError(f"{path} has a header but no rows; a table needs both")
    return frame.set_axis(names, axis="columns").reset_index(drop=True)


def write_table(frame: DataFrame, path: Path) -> None:
    """Write a table, whole or not at all; an OSError is one of ``path``."""
    check_kind(path)
    file = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        _with_pyarrow(lambda: frame.to_parquet(file, index=False))
    else:
        frame.to_csv(file, index=False, sep="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        atomic.write_bytes(path, file.getvalue())
    except OSError as error:  # it names a temporary file, which says nothing to the caller
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_kind(path: Path) -> None:
    """Raise the ArgumentError of a name that does not say what kind of table it is."""
    if path.suffix.lower() not in KINDS:
        raise ArgumentError(f"{path} ends in {path.suffix!r}; a table ends in {_listed(KINDS)}")


def check_writable(path: Path) -> None:
    """Raise the ArgumentError of a file or folder that could not be written, without a trace of the attempt."""
    above = path
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()  # it may have a name that is too long
        above = next(parent for parent in path.absolute().parents if parent.exists())
        TemporaryDirectory(dir=above).cleanup()  # rights alone do not tell: a disk may be for reading only
    except OSError as error:
        place = f"{above} is no folder to write in: {error.strerror}" if above != path else error.strerror
        raise ArgumentError(f"{path} cannot be written ({place}); choose another --out") from error


def _read_text(path: Path) -> DataFrame:
    try:
        head, body = _parsed(path)
    except UnicodeError as error:
        raise ArgumentError(f"{path} is not text in UTF-8 ({error}); save it in that encoding") from error
    except pd.errors.EmptyDataError as error:
        raise ArgumentError(f"{path} is empty; a table has a header and rows") from error
    except pd.errors.ParserError as error:
        raise ArgumentError(f"{path} is not a table: {' '.join(str(error).split())}; mend that line") from error
    return body.set_axis([name.strip() or f"unnamed_{place}" for place, name in enumerate(head, 1)], axis="columns")


def _parsed(path: Path) -> tuple[Series, DataFrame]:
    """The header, and the rows: texts, or NaN for empty fields."""
    with path.open(encoding="utf-8-sig") as file:
        first = _QUOTED.sub("", next(filter(str.strip, file), ""))
    separator = max("\t" if path.suffix.lower() == ".tsv" else ",;\t", key=first.count)
    alone = separator not in first  # then a blank line is a row without a value, unless it is at an end of the file
    text = path.read_text(encoding="utf-8-sig").strip() if alone else ""

    def parse(**more: Any) -> DataFrame:
        # Without a header of its own pandas takes the width of the first line, and refuses a longer one.
        options = {"sep": separator, "header": None, "dtype": str, "encoding": "utf-8-sig", "keep_default_na": False}
        return pd.read_csv(io.StringIO(text) if alone else path, skip_blank_lines=not alone, **options, **more)

    head, body = parse(nrows=1).iloc[0], parse(low_memory=False, na_values=[""]).iloc[1:]
    return head, body.replace(_DECIMAL_COMMA, r"\1.\2", regex=True) if separator == ";" else body


def _read_parquet(path: Path) -> DataFrame:
    try:
        return _with_pyarrow(lambda: pd.read_parquet(path))
    except (OSError, ValueError) as error:  # pyarrow's errors are of both kinds
        raise ArgumentError(f"{path} cannot be read as parquet: {str(error).splitlines()[0]:.200}") from error


def _with_pyarrow(call: Callable[[], Result]) -> Result:
    try:
        return call()
    except ImportError as error:
        raise MissingPackageError("parquet needs pyarrow, install it with: pip install pyarrow") from error


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(names)
