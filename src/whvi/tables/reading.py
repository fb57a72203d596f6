"""Tables from files and back: csv, tsv and parquet, by the end of the name.

The fields of a csv stay the texts they are, so that ``007`` and ``1e3`` come back unchanged; what a column means is
decided in one place, ``whvi.tables.columns``.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd
from pandas import DataFrame

from whvi.errors import ArgumentError, MissingPackageError
from whvi.io import atomic

Result = TypeVar("Result")
KINDS = (".csv", ".tsv", ".parquet")


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
    """Write a table, whole or not at all."""
    check_kind(path)
    file = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        _with_pyarrow(lambda: frame.to_parquet(file, index=False))
    else:
        frame.to_csv(file, index=False, sep="\t" if path.suffix.lower() == ".tsv" else ",")
    atomic.write_bytes(path, file.getvalue())


def check_kind(path: Path) -> None:
    """Raise the ArgumentError of a name that does not say what kind of table it is."""
    if path.suffix.lower() not in KINDS:
        raise ArgumentError(f"{path} ends in {path.suffix!r}; a table ends in {_listed(KINDS)}")


def _read_text(path: Path) -> DataFrame:
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = next(filter(str.strip, file), "")
        separator = max("\t" if path.suffix.lower() == ".tsv" else ",;\t", key=first.count)
        # Without a header of its own pandas takes the width of the first line, and refuses a longer one.
        options = {"sep": separator, "header": None, "dtype": str, "encoding": "utf-8-sig"}
        head = pd.read_csv(path, nrows=1, keep_default_na=False, **options).iloc[0]
        body = pd.read_csv(path, low_memory=False, **options).iloc[1:]
    except UnicodeError as error:
        raise ArgumentError(f"{path} is not text in UTF-8 ({error}); save it in that encoding") from error
    except pd.errors.EmptyDataError as error:
        raise ArgumentError(f"{path} is empty; a table has a header and rows") from error
    except pd.errors.ParserError as error:
        raise ArgumentError(f"{path} is not a table: {' '.join(str(error).split())}; mend that line") from error
    return body.set_axis([name.strip() or f"unnamed_{place}" for place, name in enumerate(head, 1)], axis="columns")


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
