"""The report as Markdown, for the documentation."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from whvi.io import atomic
from whvi.page import check_svg
from whvi_paper.blocks import Figure, Shown, Table, TextCell
from whvi_paper.report.names import anchors
from whvi_paper.report.standing import SYMBOLS
from whvi_paper.report.summary import CORRECTION, LEGEND, TITLE, summary_table


def markdown(shown: Sequence[Shown], figures: Path | None) -> str:
    """The summary and all exhibits.

    Figures are written into the folder ``figures`` and referred to as ``NAME OF THE FOLDER/file.svg``, so the text
    belongs beside that folder; without one they are named only.
    """
    legend = "\n".join(f"- {SYMBOLS[tone]} {text}" for tone, text in LEGEND.items())
    parts = [f"# {TITLE}", _table(summary_table(shown)), legend, CORRECTION]
    for anchor, exhibit in zip(anchors(shown), shown, strict=True):
        parts += [f"## {_inline(exhibit.title)}", f"*{_inline(exhibit.source)}*", _inline(exhibit.text)]
        if exhibit.missing:
            parts.append(f"**{exhibit.missing} of the runs of this exhibit are missing.**")
        for number, block in enumerate(exhibit.blocks, 1):
            name = f"{anchor}-{number}.svg"
            parts.append(_table(block) if isinstance(block, Table) else _figure(block, figures, name))
    return "\n\n".join(filter(None, parts)) + "\n"


def _figure(figure: Figure, folder: Path | None, name: str) -> str:
    words = f"**{_inline(figure.title)}.** {_inline(figure.caption)}".rstrip()
    if folder is None:
        return words
    atomic.write_text(folder / name, check_svg(figure.svg) + "\n")
    alternative = _inline(figure.alternative or figure.title).replace("[", "(").replace("]", ")").replace("\n", " ")
    return f"![{alternative}]({folder.name}/{name})\n\n{words}"


def _table(table: Table) -> str:
    rows = [[_field(text) for text in table.head], ["---", *["---:"] * (len(table.head) - 1)]]
    rows += [[_cell(cell) for cell in row] for row in table.rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join(filter(None, (f"**{_inline(table.title)}**", lines, _inline(table.caption))))


def _cell(cell: TextCell) -> str:
    return f"{SYMBOLS[cell.tone]} {_field(cell.text)}".strip()


def _field(text: str) -> str:
    return _inline(text).replace("|", "\\|").replace("\n", "<br>")


def _inline(text: str) -> str:
    """Text in which nothing is taken for a tag."""
    return escape(text, quote=False)
