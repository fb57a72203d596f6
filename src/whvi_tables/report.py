"""What was learned from a table, as one page of HTML that needs nothing but itself."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

import numpy as np
import pandas
import sklearn
import torch

import whvi
from whvi.page import check_svg, frame
from whvi_tables.fitting import Fitted
from whvi_tables.judging import Classes, Judgement, Metric, Numbers
from whvi_tables.pictures import Picture, pictures
from whvi_tables.settings import Settings
from whvi_tables.style import STYLE

MOST_ROWS = 200
"""Held-out rows in the page."""
Head = Sequence[tuple[str, str]]
"""Names of columns, and the class of each."""


def page(fitted: Fitted, settings: Settings, source: str) -> str:
    """The report of a fit to the table called ``source``; it depends on nothing else but versions."""
    model, found = fitted.model, fitted.judgement
    learned = fitted.rows - fitted.without_target - len(found.rows)
    title = f"{model.target}: {model.task} with uncertainty"
    drawings = pictures(found, model.estimator.history_, model.target)
    body = [
        f'<header><p class="kicker">whvi report · {escape(source)}</p><h1>{escape(title)}</h1>',
        f'<p class="lead">{escape(headline(found))}</p>',
        f'<p class="source">The model learned from {learned:,} rows. The other {len(found.rows):,}, chosen at random, '
        "were kept apart to judge it: every number and picture here is about them.</p></header>",
        "<main>",
        _cards(found.metrics),
        "<section><h2>How it does</h2>",
        f'<div class="figures">{"".join(map(_figure, drawings))}</div></section>',
        f"<section><h2>Numbers</h2>{_metrics(found.metrics)}</section>",
        f"<section><h2>Held-out rows</h2>{_held(found)}</section>",
        f"<section><h2>Columns</h2>{_columns(fitted)}</section>",
        _facts("Settings", _settings(fitted, settings)),
        _facts("Versions", _versions()),
        "</main>",
    ]
    return frame(title, "\n".join(body).replace(" %", "\u00a0%"), STYLE)  # a number and its % stay on one line


def headline(found: Judgement) -> str:
    """The result in two sentences.

    They say so, too, when the model is no better than the baseline.
    """
    first = found.metrics[0]
    value, baseline = first.shown(first.value), first.shown(first.baseline)
    if isinstance(found, Classes):
        rule = "always saying the most frequent class"
        told = f"{value} of the rows are right, against {baseline} for {rule}."
        score = found.metrics[1]
        rest = f"The true class had a probability of {np.exp(-score.value):.0%} (geometric mean)."
    else:
        rule = "always saying the mean"
        told = f"The typical error (RMSE) is {value}, against {baseline} for {rule}."
        rest = f"The {100 * found.level:g} % intervals hold {found.hits.mean():.1%} of the truths."
    verdict = "" if first.wins else f" That is no better than {rule}: the columns may say little about the target."
    return f"{told}{verdict} {rest}".replace("%", " %").replace("  %", " %")


def decimals(scale: float) -> int:
    """How many to show of numbers that are sure to about ``scale``: two digits of it.

    >>> decimals(57.3), decimals(0.031), decimals(1e9)
    (0, 3, 0)
    """
    return min(12, max(0, 1 - int(np.floor(np.log10(scale))))) if scale > 0 else 3


def _cards(metrics: Sequence[Metric]) -> str:
    def card(metric: Metric) -> str:
        words = "better than" if metric.wins else "not better than"
        beside = f"{_mark(metric)} {words} baseline {metric.shown(metric.baseline)}"
        name = metric.name[0].upper() + metric.name[1:]
        value, note = metric.shown(metric.value), escape(metric.note) if metric.wins is None else beside
        return f'<div class="card"><h3>{escape(name)}</h3><b>{value}</b><small>{note}</small></div>'

    shown = [metric for metric in metrics if metric.name not in ("MAE", "CRPS") and "width" not in metric.name]
    return f'<div class="cards">{"".join(map(card, shown[:4]))}</div>'


def _mark(metric: Metric) -> str:
    """Whether it is better than the baseline, for eyes and for readers of screens."""
    if metric.wins is None:
        return ""
    kind, sign, words = ("good", "▲", "better than") if metric.wins else ("bad", "▼", "not better than")
    return f'<span class="{kind}" role="img" aria-label="{words}">{sign}</span>'


def _figure(picture: Picture) -> str:
    title, caption = escape(picture.title), escape(picture.caption)
    return (
        f'<figure><h3>{title}</h3><div class="drawing" role="img" aria-label="{title}">{check_svg(picture.svg)}</div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _metrics(metrics: Sequence[Metric]) -> str:
    head = [("", ""), ("model", ""), ("baseline", ""), ("what it is", "left")]
    rows = [
        [
            metric.name,
            f"{_mark(metric)} {metric.shown(metric.value)}",
            metric.shown(metric.baseline),
            escape(metric.note),
        ]
        for metric in metrics
    ]
    note = (
        "The baseline looks at no column: it says the mean and the spread, or the shares of the classes, of the rows "
    )
    return _table("On the held-out rows", head, rows) + f'<p class="caption">{note}that the model learned from.</p>'


def _held(found: Judgement) -> str:
    count = min(len(found.rows), MOST_ROWS)
    head, rows = _number_rows(found, count) if isinstance(found, Numbers) else _class_rows(found, count)
    missed = {place for place in range(count) if not found.hits[place]}
    left = f" The first {count:,} of {len(found.rows):,}." if count < len(found.rows) else ""
    what = "whose interval misses the truth" if isinstance(found, Numbers) else "whose class is wrong"
    legend = "Bar: interval; line: mean; dot: truth. " if isinstance(found, Numbers) else ""
    caption = (
        f'<p class="caption">{legend}Rows {what} are coloured. Numbers of rows count from 1 below the header.{left}</p>'
    )
    return _table("Each row", head, rows, missed, "tall") + caption


def _number_rows(found: Numbers, count: int) -> tuple[Head, list[list[str]]]:
    share = f"{100 * found.level:g} %"
    names = ("row", "truth", "mean", "std", f"low {share}", f"high {share}")
    low = float(min(found.low[:count].min(), found.y[:count].min()))
    width = float(max(found.high[:count].max(), found.y[:count].max())) - low or 1.0

    digits = decimals(float(np.median(found.std)))

    def place(value: float) -> str:
        return f"{100 * (value - low) / width:.1f}%"

    rows = []
    for row in range(count):
        values = [float(part[row]) for part in (found.y, found.mean, found.std, found.low, found.high)]
        truth, mean, _, bottom, top = values
        span = f"left:{place(bottom)};width:{place(low + top - bottom)}"
        picture = f'<span style="{span}"></span><i style="left:{place(mean)}"></i><b style="left:{place(truth)}"></b>'
        numbers = [f"{value:,.{digits}f}" for value in values]
        rows.append([str(found.rows[row] + 1), *numbers, f'<span class="range" aria-hidden="true">{picture}</span>'])
    return [*((name, "") for name in names), ("interval", "word")], rows


def _class_rows(found: Classes, count: int) -> tuple[Head, list[list[str]]]:
    rows = []
    for row in range(count):
        best = float(found.probabilities[row].max())
        bar = f'<span class="bar" aria-hidden="true"><span style="width:{100 * best:.1f}%"></span></span>'
        truth, guess = (escape(found.classes[part[row]]) for part in (found.labels, found.guess))
        rows.append([str(found.rows[row] + 1), truth, guess, f"{100 * best:.1f} %", bar, f"{found.entropy[row]:.3f}"])
    head = (("row", ""), ("truth", "word"), ("predicted", "word"), ("probability", ""), ("", ""), ("entropy", ""))
    return head, rows


def _columns(fitted: Fitted) -> str:
    head = [("column", ""), ("kind", "word"), ("missing", ""), ("features", ""), ("what was done", "left")]
    rows = [
        [kind.name, kind.kind, f"{fitted.missing[kind.name]:,}", str(len(kind.features)), escape(kind.said)]
        for kind in fitted.model.columns.kinds
    ]
    return _table(f"{len(rows)} columns, {len(fitted.model.columns.features)} features", head, rows)


def _table(title: str, head: Head, rows: Sequence[Sequence[str]], missed: Iterable[int] = (), kind: str = "") -> str:
    """The first field of a row is a text; the others are HTML."""
    names = "".join(f'<th scope="col"{_class(style)}>{escape(name)}</th>' for name, style in head)
    lines = []
    for place, (first, *rest) in enumerate(rows):
        fields = "".join(f"<td{_class(style)}>{text}</td>" for text, (_, style) in zip(rest, head[1:], strict=True))
        mark = _class("miss") if place in set(missed) else ""
        lines.append(f'<tr{mark}><th scope="row">{escape(first)}</th>{fields}</tr>')
    return (
        f'<div class="scroll {kind}" tabindex="0" role="region" aria-label="{escape(title)}"><table class="plain">'
        f"<caption><span>{escape(title)}</span></caption><thead><tr>{names}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _facts(title: str, facts: dict[str, Any]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    return f"<details><summary>{escape(title)}</summary><dl>{items}</dl></details>"


def _settings(fitted: Fitted, settings: Settings) -> dict[str, Any]:
    """What was asked for, and what the estimator made of it."""
    asked = {name: value for name, value in asdict(settings).items() if value not in (None, ())}
    given = fitted.model.estimator.get_params()
    dropped = {"rows without a target, left out": fitted.without_target} if fitted.without_target else {}
    return {**asked, "task": f"{fitted.model.task} ({fitted.reason})", **dropped, **given}


def _versions() -> dict[str, str]:
    return {
        "whvi": whvi.__version__,
        "kernel": whvi.kernel_info().backend,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pandas": pandas.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
