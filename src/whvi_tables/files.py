"""The type of a table file, by its suffix."""

from collections.abc import Iterable
from pathlib import Path

from whvi.errors import ArgumentError

PARQUET, TSV, PACKED = ".parquet", ".tsv", ".gz"
KINDS = (".csv", TSV, PARQUET, ".csv.gz", ".tsv.gz")


def kind_of(path: Path) -> tuple[str, bool]:
    """The kind without ``.gz``, and whether it has that; ArgumentError if the name does not say it.

    >>> kind_of(Path("my.table.CSV.gz"))
    ('.csv', True)
    """
    end = "".join(path.suffixes[-2:] if path.suffix.lower() == PACKED else path.suffixes[-1:]).lower()
    if end not in KINDS:
        raise ArgumentError(f"{path} ends in {end!r}; a table ends in {listed(KINDS)}")
    return end.removesuffix(PACKED), end.endswith(PACKED)


def listed(names: Iterable[str]) -> str:
    """Names with commas between them."""
    return ", ".join(names)
