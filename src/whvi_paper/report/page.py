"""The report as one page of HTML that needs nothing but itself."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from whvi.io import atomic
from whvi.page import check_svg, frame
from whvi_paper.blocks import Block, Figure, Shown, Table, TextCell, Tone
from whvi_paper.report.names import anchors
from whvi_paper.report.standing import SYMBOLS
from whvi_paper.report.summary import CORRECTION, LEGEND, TITLE, common_provenance, summary_table

CLASSES = {Tone.BETTER: "better", Tone.WITHIN: "within", Tone.WORSE: "worse", Tone.PLAIN: ""}
BODY = Template("""\
<header>
<h1>$title</h1>
$summary
</header>
<nav aria-label="Contents"><h2>Contents</h2><ol>
$contents
</ol></nav>
<main>
$exhibits
</main>""")


def write_html(shown: Sequence[Shown], path: Path) -> Path:
    """Write the report to ``path``, whole or not at all; the path.

    Law: the page asks for nothing from outside itself, and every text in it is shown as it is.
    """
    atomic.write_text(path, page(shown))
    return path


def page(shown: Sequence[Shown]) -> str:
    """The page as text; it depends on what is shown and on nothing else."""
    names = anchors(shown)
    contents = "\n".join(
        f'<li><a href="#{name}">{escape(exhibit.title)}</a> <span class="source">{escape(exhibit.source)}</span></li>'
        for name, exhibit in zip(names, shown, strict=True)
    )
    exhibits = "\n".join(_exhibit(name, exhibit) for name, exhibit in zip(names, shown, strict=True))
    body = BODY.substitute(title=escape(TITLE), summary=_summary(shown), contents=contents, exhibits=exhibits)
    return frame(TITLE, body)


def _summary(shown: Sequence[Shown]) -> str:
    legend = "".join(
        f'<li><span class="{CLASSES[tone]}">{_symbol(tone)}</span> {escape(text)}</li>' for tone, text in LEGEND.items()
    )
    return "\n".join(
        (
            _table(summary_table(shown), "summary"),
            f'<ul class="legend">{legend}</ul>',
            f"<p>{escape(CORRECTION)}</p>",
            _facts("Versions and data", common_provenance(shown)),
        )
    )


def _exhibit(name: str, shown: Shown) -> str:
    records = dict.fromkeys(record for entry in shown.entries for record in entry.records)
    parts = [f"<h2>{escape(shown.title)}</h2>", f'<p class="source">{escape(shown.source)}</p>', paragraphs(shown.text)]
    if shown.missing:
        parts.append(
            f'<p class="missing">{shown.missing} of the runs that the paper\'s protocol asks for are missing.</p>'
        )
    parts += [_block(block, f"{name}-{number}") for number, block in enumerate(shown.blocks)]
    parts.append(_facts("Provenance", shown.provenance))
    if records:
        listed = " ".join(f"<code>{escape(record)}</code>" for record in records)
        parts.append(f'<details class="screen"><summary>{len(records)} records</summary><p>{listed}</p></details>')
    return f'<section id="{name}">\n' + "\n".join(filter(None, parts)) + "\n</section>"


def paragraphs(text: str) -> str:
    """Paragraphs are parted by empty lines; what stands between backticks is code.

    >>> paragraphs("a < b\\n\\nsee `whvi results`")
    '<p>a &lt; b</p><p>see <code>whvi results</code></p>'
    """
    parts = (part.strip() for part in text.split("\n\n"))
    marked = (re.sub("`([^`]+)`", r"<code>\1</code>", escape(part)) for part in parts if part)
    return "".join(f"<p>{part}</p>" for part in marked)


def _block(block: Block, name: str) -> str:
    return _figure(block) if isinstance(block, Figure) else _table(block, name)


def _figure(figure: Figure) -> str:
    words = escape(figure.alternative or figure.title)
    caption = f" {escape(figure.caption)}" if figure.caption else ""
    return (
        f'<figure><div class="drawing" role="img" aria-label="{words}">{check_svg(figure.svg)}</div>'
        f"<figcaption><b>{escape(figure.title)}.</b>{caption}</figcaption></figure>"
    )


def _table(table: Table, name: str) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.head)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>' for row in table.rows
    )
    caption = f'<p class="caption">{escape(table.caption)}</p>' if table.caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table><caption id="{name}-title"><span>{escape(table.title)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{caption}{_notes(table)}"
    )


def _cell(cell: TextCell) -> str:
    first, *rest = cell.text.split("\n")
    kind = f' class="{CLASSES[cell.tone]}"' if CLASSES[cell.tone] else ""
    note = f' title="{escape(cell.note)}"' if cell.note else ""
    lines = "".join(f"<small>{escape(line)}</small>" for line in rest)
    number = f"<b>{escape(first)}</b>" if rest else escape(first)
    return f"<td{kind}{note}>{_symbol(cell.tone)}{number}{lines}</td>"


def _symbol(tone: Tone) -> str:
    return f'<i role="img" aria-label="{tone.value}">{SYMBOLS[tone]}</i> ' if SYMBOLS[tone] else ""


def _notes(table: Table) -> str:
    """For those who cannot point at a field: by finger, by keyboard, on paper. Fields of one note share a line."""
    notes: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        for name, cell in zip(table.head, row, strict=True):
            if cell.note:
                notes.setdefault((row[0].text, cell.note), []).append(name)
    if not notes:
        return ""
    lines = "".join(
        f"<li><b>{escape(row)}, {escape(', '.join(names))}</b>: {escape(note)}</li>"
        for (row, note), names in notes.items()
    )
    return f'<details><summary>Where the numbers come from</summary><ul class="notes">{lines}</ul></details>'


def _facts(title: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f"<details><summary>{escape(title)}</summary><dl>{items}</dl></details>"
