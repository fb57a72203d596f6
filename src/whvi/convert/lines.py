"""How a report on the modules of a model is written, line by line; what was done to them, its caller says."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class About(Protocol):
    """What every row says of a module: a dotted name, its class, the shape of its weight and a note."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def note(self) -> str: ...


Row = TypeVar("Row", bound=About)
COLUMNS = ("name", "kind", "shape")
"""The first columns of every report."""


def lines(
    more: Sequence[str],
    cells: Callable[[Row], tuple[str, ...]],
    done: Sequence[Row],
    left: Sequence[Row],
    heading: str,
    draws: tuple[str, str],
) -> list[str]:
    """A table of what was done, its notes, what was left and why, and what the layers draw for.

    Args:
        more: headers of the columns behind ``COLUMNS``.
        cells: what stands there, of a row.
        done, left: rows of modules that were changed, and of those that were not.
        heading: over the latter.
        draws: of linear layers and of convolutions: "example", "batch" or "".
    """
    shown = [(_name(row), row.kind, " x ".join(map(str, row.shape)) or "-", *cells(row)) for row in done]
    found = _table((*COLUMNS, *more), shown) if shown else []
    found += [f"{_name(row)}: {row.note}" for row in done if row.note]
    found += [heading] * bool(left)
    found += [f"  {_name(row)} ({row.kind}): {row.note}" for row in left]
    kinds = zip(("Linear layers", "Convolutions"), draws, ("row", "example"), strict=True)
    return found + [
        f'{kind} draw once for each {one if each == "example" else "call"} (draws="{each}").'
        for kind, each, one in kinds
        if each
    ]


def _name(row: About) -> str:
    return row.name or "(model)"


def _table(header: tuple[str, ...], cells: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns side by side; the last one to the right."""
    rows = [header, *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join((*map(str.ljust, row[:-1], widths), row[-1].rjust(widths[-1]))) for row in rows]
