"""What an exhibit shows: tables, figures, and published numbers beside the paper's. ``whvi_paper.report`` draws it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Tone(StrEnum):
    """How a number of ours stands to the paper's."""

    BETTER = "better"
    WITHIN = "within one std"
    WORSE = "worse"
    PLAIN = "no comparison"


class Cell(NamedTuple):
    """What a number is of, whoever found it and wherever it stands."""

    method: str
    dataset: str
    model: str
    depth: int
    width: int
    metric: str


@dataclass(frozen=True)
class Entry:
    """One published number: a metric of a method on a dataset, over all splits, beside the paper's.

    ``paper_mean`` is as printed; ``paper_corrected`` is what to compare with (for regression MNLL of WHVI, MFG and MCD
    the printed value + 0.0932 nats for each output). None where the paper has no such number.
    """

    exhibit: str
    method: str
    dataset: str
    model: str
    depth: int
    width: int
    metric: str
    mean: float
    std: float
    n: int
    paper_mean: float | None = None
    paper_std: float | None = None
    paper_corrected: float | None = None
    cpu_seconds: float | None = None
    """Of all splits together."""
    parameters: int | None = None
    failed: int = 0
    """Runs of this cell that failed or were cancelled."""
    records: tuple[str, ...] = ()
    """Names of the records that it was computed from."""
    paper_decimals: int = 2
    """Of the paper's number: ours is as good if it is printed alike."""

    @property
    def cell(self) -> Cell:
        """What it is of."""
        return Cell(self.method, self.dataset, self.model, self.depth, self.width, self.metric)


@dataclass(frozen=True)
class TextCell:
    """One field of a table."""

    text: str
    tone: Tone = Tone.PLAIN
    note: str = ""
    """Shown when the reader points at it, and in print below the table: where the number comes from."""


@dataclass(frozen=True)
class Table:
    """Rows of text; the first column names the row."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[TextCell]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing: a complete ``<svg>`` element without external references."""

    title: str
    svg: str
    caption: str = ""
    alternative: str = ""
    """What it shows, in words, for those who cannot see it."""


Block = Table | Figure


@dataclass(frozen=True)
class Shown:
    """An exhibit as the report shows it."""

    name: str
    title: str
    source: str
    """Where it is in the paper: "Table 2"."""
    text: str
    """What was done and what came out, a few sentences."""
    blocks: Sequence[Block]
    entries: Sequence[Entry] = ()
    missing: int = 0
    """Records that the exhibit asks for and that are not there."""
    failed: int = 0
    """Runs that failed or were cancelled, whether or not a later one was done."""
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each existing record, by its name: exhibits may share some."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Versions, data, days: name and value."""
    authors: Sequence[Entry] = ()
    """The same numbers as the authors' code measures, where that differs: averages over functions come last."""
    printed: Collection[Cell] = ()
    """Of which the paper prints a number."""

    @property
    def numbers(self) -> list[Entry]:
        """All that it publishes, each once: a metric of which the authors have the same is in both lists."""
        ours = {entry.cell for entry in self.entries}
        return [*self.entries, *(entry for entry in self.authors if entry.cell not in ours)]
