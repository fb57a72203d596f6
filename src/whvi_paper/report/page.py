"""The report as one page of HTML that needs nothing but itself."""

from collections.abc import Sequence
from pathlib import Path

from whvi.io import atomic
from whvi.page import render
from whvi_paper.blocks import Shown, Table, Tone
from whvi_paper.report.names import anchors
from whvi_paper.report.standing import SYMBOLS
from whvi_paper.report.summary import CORRECTION, LEGEND, TITLE, common_provenance, summary_table

CLASSES = {Tone.BETTER: "better", Tone.WITHIN: "within", Tone.WORSE: "worse", Tone.PLAIN: None}
"""Of fields in the style sheet."""


def write_html(shown: Sequence[Shown], path: Path) -> Path:
    """Write the report to ``path``, whole or not at all; the path.

    Law: the page asks for nothing from outside itself, and every text in it is shown as it is.
    """
    atomic.write_text(path, page(shown))
    return path


def page(shown: Sequence[Shown]) -> str:
    """The page as text; it depends on what is shown and on nothing else."""
    return render(
        Path(__file__).with_name("report.html"),
        title=TITLE,
        summary=summary_table(shown),
        legend=LEGEND,
        correction=CORRECTION,
        provenance=common_provenance(shown),
        exhibits=dict(zip(anchors(shown), shown, strict=True)),
        classes=CLASSES,
        symbols=SYMBOLS,
        notes=notes,
        records=records,
    )


def notes(table: Table) -> list[tuple[str, list[str], str]]:
    """Row, columns and text of each note, for those who cannot point at a field: by finger, by keyboard, on paper.

    Fields of one note share a line.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        for name, cell in zip(table.head, row, strict=True):
            if cell.note:
                found.setdefault((row[0].text, cell.note), []).append(name)
    return [(row, names, note) for (row, note), names in found.items()]


def records(shown: Shown) -> list[str]:
    """Names of all records that an exhibit was computed from, each once."""
    return list(dict.fromkeys(record for entry in shown.entries for record in entry.records))
