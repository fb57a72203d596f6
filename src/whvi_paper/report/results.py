"""The published numbers alone: for other programs, and in the terminal."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from whvi_paper.blocks import Entry, Tone
from whvi_paper.report.compare import difference, label, mean_and_std, printed
from whvi_paper.report.standing import SYMBOLS, tone

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {Tone.BETTER: "green", Tone.WITHIN: "blue", Tone.WORSE: "red", Tone.PLAIN: ""}


def entries_json(entries: Sequence[Entry]) -> str:
    """A list of objects, one to a line, with the fields of ``Entry``; what was not run is left out.

    What is not a finite number is null.

    >>> cell = Entry("toy", "whvi", "toy", "mlp", 2, 128, "rmse", 0.5, float("nan"), 1)
    >>> [(found["method"], found["mean"], found["std"]) for found in json.loads(entries_json([cell]))]
    [('whvi', 0.5, None)]
    """
    lines = [json.dumps({name: _plain(value) for name, value in asdict(entry).items()}) for entry in entries if entry.n]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def terminal_tables(entries: Iterable[Entry]) -> Iterator["Table"]:
    """A table for each exhibit, with a line for each entry: ours, the paper's, and how they stand to each other."""
    for exhibit, group in groupby(entries, key=lambda entry: entry.exhibit):
        yield _terminal_table(exhibit, group)


def _terminal_table(exhibit: str, entries: Iterable[Entry]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title=exhibit, title_style="bold", title_justify="left", box=None, padding=(0, 1, 0, 0))
    for name in ("dataset", "method", "metric"):
        table.add_column(name)
    for name in ("ours", "paper", "corrected", "distance", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        kind = tone(entry)
        model = "" if entry.model == "mlp" else f" {entry.model}"
        shape = f" {entry.depth}x{entry.width}" if entry.depth else ""
        paper, corrected = ([line.partition(" ")[2] for line in printed(entry)] + ["", ""])[:2]
        numbers = mean_and_std(entry.mean, entry.std, entry.paper_decimals)
        ours = f"{SYMBOLS[kind]} {numbers}" if entry.n else "–"
        table.add_row(
            Text(f"{entry.dataset}{model}{shape}"),
            Text(label(entry.method)),
            Text(label(entry.metric)),
            Text(ours, style=COLOURS[kind]),
            *(Text(text) for text in (paper, corrected, difference(entry), str(entry.n))),
        )
    return table
