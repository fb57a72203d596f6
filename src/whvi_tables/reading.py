"""Tables from files: csv, tsv and parquet, by the end of the name, a text also packed by gzip.

The fields of a text stay the texts they are, so that ``007`` and ``NA`` come back unchanged; what a column means is
decided in one place, ``whvi_tables.columns``. What is found out about a file here is said in its notes.
"""

import codecs
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from gzip import GzipFile
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import pandas as pd
from pandas import DataFrame

from whvi.errors import ArgumentError, MissingPackageError
from whvi_tables.files import KINDS, PARQUET, TSV, kind_of, listed

Result = TypeVar("Result")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes", r"\s+": "spaces"}
FREE, MOST_UNPACKED = 64 << 20, 100
"""Bytes that a packed file may have when it is unpacked, and how many times its size if that is more."""
_HEAD = 1 << 16
_SAMPLE = 20
_QUOTED = re.compile(r'"[^"]*"?')
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NUMBER = re.compile(r"[+-]?\d*[.,]?\d+")
_DECIMAL_COMMA = re.compile(r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$")


class Table(NamedTuple):
    """A table as it came."""

    frame: DataFrame
    """Names are texts, each once."""
    notes: tuple[str, ...] = ()
    """How the file was read, where that had to be found out."""
    comma: bool = False
    """Whether it has semicolons between fields, as where a comma stands before decimals."""

    def with_points(self, names: list[str]) -> DataFrame:
        """The frame with ``1.5`` for ``1,5`` in columns that were learned with points, if it has semicolons."""
        here = [name for name in names if self.comma and name in self.frame]
        return self.frame.assign(
            **{name: self.frame[name].replace(_DECIMAL_COMMA, r"\1.\2", regex=True) for name in here}
        )


def read_table(path: Path) -> Table:
    """The table of a file, with at least one row; ArgumentError says what is wrong with it."""
    kind, packed = kind_of(path)
    if not path.exists():
        raise ArgumentError(f"{path} does not exist; give a {listed(KINDS)} file")
    if not path.is_file():
        raise ArgumentError(f"{path} is not a file; give a {listed(KINDS)} file")
    if packed:
        _check_unpacked(path)
    table = Table(_read_parquet(path)) if kind == PARQUET else _read_text(path)
    names = [str(name) for name in table.frame.columns]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        places = [place for place, name in enumerate(names, 1) if name == twice[0]]
        more = f" (so do {listed(map(repr, twice[1:4]))})" if twice[1:] else ""
        raise ArgumentError(
            f"{path} has more than one column called {twice[0]!r}: columns {listed(map(str, places))}{more}; give each "
            "a name of its own in the header, or remove the copies"
        )
    if table.frame.empty:
        raise ArgumentError(f"{path} has a header but no rows; a table needs both")
    return table._replace(frame=table.frame.set_axis(names, axis="columns").reset_index(drop=True))


def _read_text(path: Path) -> Table:
    encodings = list(_encodings(path))
    try:
        for encoding in encodings:
            try:
                table = _parsed(path, encoding)
                break
            except UnicodeError:
                if encoding == encodings[-1]:
                    raise
    except UnicodeError as error:
        raise ArgumentError(f"{path} is not text ({error}); save it as a csv in UTF-8") from error
    except pd.errors.EmptyDataError as error:
        raise ArgumentError(f"{path} is empty; a table has a header and rows") from error
    except pd.errors.ParserError as error:
        raise ArgumentError(f"{path} is not a table: {' '.join(str(error).split())}; fix that line") from error
    if encoding == "utf-8-sig":
        return table
    note = f"its text is in {encoding}, not UTF-8; save it as UTF-8 if characters are wrong"
    return table._replace(notes=(note, *table.notes))


def _encodings(path: Path) -> Iterator[str]:
    """Those to try one after the other, by the first bytes."""
    with _opened(path) as file:
        head = file.read(_HEAD)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield "utf-16"
    elif b"\0" in head:
        even, odd = (head[start::2].count(0) for start in (0, 1))
        yield "utf-16-be" if even > odd else "utf-16-le"
    else:
        yield "utf-8-sig"
        if _CONTROL.search(head.decode("latin-1")) is None:  # else it is no text
            yield from ("cp1252", "latin-1")


def _parsed(path: Path, encoding: str) -> Table:
    """The rows: texts, or NaN for empty fields."""
    with io.TextIOWrapper(_opened(path), encoding) as file:
        separator = _separator(path, list(islice(filter(str.strip, file), _SAMPLE)))
    alone = separator is None  # then a blank line is a row without a value, unless it is at an end of the file
    text = ""
    if alone:
        with io.TextIOWrapper(_opened(path), encoding) as file:
            text = file.read().strip()

    def parse(**more: Any) -> DataFrame:
        # Without a header of its own pandas takes the width of the first line, and refuses a longer one.
        options = {"sep": separator or ",", "header": None, "dtype": str, "keep_default_na": False, **more}
        with io.StringIO(text) if alone else _opened(path) as file:
            return pd.read_csv(file, encoding=encoding, skip_blank_lines=not alone, **options)

    head, body = parse(nrows=1).iloc[0], parse(low_memory=False, na_values=[""]).iloc[1:]
    names = [_name(name, place) for place, name in enumerate(head, 1)]
    usual = separator in (None, ",", "\t" if kind_of(path)[0] == TSV else ",")
    notes = () if usual else (f"fields are separated by {SEPARATORS[str(separator)]}",)
    return Table(body.set_axis(names, axis="columns"), notes, comma=separator == ";")


def _separator(path: Path, lines: list[str]) -> str | None:
    """What stands between the fields of a file with these first lines; None if there is one field alone.

    Spaces do only where each line has as many, and one of the fields is a number in all rows.
    """
    bare = [_QUOTED.sub('""', line) for line in lines] or [""]
    if kind_of(path)[0] == TSV:
        return "\t" if "\t" in bare[0] else None
    counts = {mark: bare[0].count(mark) for mark in SEPARATORS}
    if most := max(counts.values()):
        return next(mark for mark, count in counts.items() if count == most)
    rows = [line.split() for line in bare]
    even = len({len(row) for row in rows}) == 1 and len(rows) > 1
    if even and any(all(map(_NUMBER.fullmatch, column)) for column in zip(*rows[1:], strict=True)) and len(rows[0]) > 1:
        return r"\s+"
    return None


def _name(name: Any, place: int) -> str:
    return str(name).strip() or f"unnamed_{place}"


def _opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked."""
    if kind_of(path)[1]:
        return GzipFile(path)  # type: ignore[return-value]  # it is one in all but name
    return path.open("rb")


def _check_unpacked(path: Path) -> None:
    """Raise the ArgumentError of a packed file that is damaged, or that would fill the memory."""
    most, size = max(FREE, MOST_UNPACKED * path.stat().st_size), 0
    try:
        with _opened(path) as file:
            while piece := file.read(1 << 20):
                size += len(piece)
                if size > most:
                    raise ArgumentError(
                        f"{path} has {path.stat().st_size:,} bytes but more than {most:,} when decompressed, which is "
                        "unusual for a table; decompress it yourself if it is right"
                    )
    except (EOFError, OSError, zlib.error) as error:
        raise ArgumentError(f"{path} cannot be decompressed ({error}); copy it again") from error


def _read_parquet(path: Path) -> DataFrame:
    try:
        return with_pyarrow(lambda: pd.read_parquet(path))
    except (OSError, ValueError) as error:  # pyarrow's errors are of both kinds
        raise ArgumentError(f"{path} cannot be read as parquet: {str(error).splitlines()[0]:.200}") from error


def with_pyarrow(call: Callable[[], Result]) -> Result:
    """The result of a call that needs it."""
    try:
        return call()
    except ImportError as error:
        raise MissingPackageError("parquet needs pyarrow, install it with: pip install pyarrow") from error
