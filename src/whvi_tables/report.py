"""The report of a model, as one self-contained HTML page."""

import platform
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import sklearn
import torch

import whvi
from whvi.page import render
from whvi_tables.fitting import Fitted
from whvi_tables.judging import Classes, Judgement, Numbers
from whvi_tables.pictures import pictures
from whvi_tables.settings import Settings

MOST_ROWS = 200
"""Held-out rows in the page."""
CARDS = ("RMSE", "R²", "MNLL", "coverage", "accuracy", "Brier score", "ECE")
"""How the names of the metrics begin that are seen first."""


def page(fitted: Fitted, settings: Settings, source: str) -> str:
    """The report of a fit to the table called ``source``; it depends on nothing else but versions."""
    model, found = fitted.model, fitted.judgement
    text = render(
        Path(__file__).with_name("report.html"),
        title=f"{model.target}: {model.task} with uncertainty",
        source=source,
        headline=headline(found),
        learned=fitted.rows - fitted.without_target - len(found.rows),
        judged=len(found.rows),
        cards=[metric for metric in found.metrics if metric.name.startswith(CARDS)],
        pictures=pictures(found, model.estimator.history_, model.target),
        metrics=found.metrics,
        share=f"{100 * found.level:g} %" if isinstance(found, Numbers) else "",
        rows=number_rows(found) if isinstance(found, Numbers) else class_rows(found),
        columns=model.columns,
        missing=fitted.missing,
        notes=fitted.notes,
        settings=_settings(fitted, settings),
        versions=_versions(),
    )
    return text.replace(" %", "\u00a0%")  # a number and its % stay on one line


def headline(found: Judgement) -> str:
    """The result in two sentences.

    They say so if the model is not better than the baseline.
    """
    first = found.metrics[0]
    value, baseline = first.shown(first.value), first.shown(first.baseline)
    if isinstance(found, Classes):
        rule = "always predicting the most frequent class"
        told = f"{value} of the rows are correct, against {baseline} for {rule}."
        score = found.metrics[1]
        rest = f"The true class had a probability of {np.exp(-score.value):.0%} (geometric mean)."
    else:
        rule = "always predicting the mean"
        told = f"The typical error (RMSE) is {value}, against {baseline} for {rule}."
        rest = f"The {100 * found.level:g} % intervals contain {found.hits.mean():.1%} of the targets."
    verdict = (
        ""
        if first.wins
        else f" This is not better than {rule}: the columns may have little information about the target."
    )
    return f"{told}{verdict} {rest}".replace("%", " %").replace("  %", " %")


def decimals(scale: float) -> int:
    """How many to show of numbers that are sure to about ``scale``: two digits of it.

    >>> decimals(57.3), decimals(0.031), decimals(1e9)
    (0, 3, 0)
    """
    return min(12, max(0, 1 - int(np.floor(np.log10(scale))))) if scale > 0 else 3


def number_rows(found: Numbers) -> list[dict[str, Any]]:
    """The first held-out rows: numbers to read, and the places from 0 to 1 where a drawing has them."""
    parts = np.column_stack([found.y, found.mean, found.std, found.low, found.high])[:MOST_ROWS]
    digits = decimals(float(np.median(found.std)))
    start = parts[:, [0, 3]].min()
    places = (parts - start) / (parts[:, [0, 4]].max() - start or 1.0)
    return [
        {
            "number": found.rows[row] + 1,
            "missed": not found.hits[row],
            "numbers": [f"{value:,.{digits}f}" for value in parts[row]],
            **dict(zip(("truth", "mean", "std", "low", "high"), places[row], strict=True)),
        }
        for row in range(len(parts))
    ]


def class_rows(found: Classes) -> list[dict[str, Any]]:
    """The first held-out rows."""
    return [
        {
            "number": found.rows[row] + 1,
            "missed": not found.hits[row],
            "truth": found.classes[found.labels[row]],
            "guess": found.classes[found.guess[row]],
            "probability": found.probabilities[row].max(),
            "entropy": found.entropy[row],
        }
        for row in range(min(len(found.rows), MOST_ROWS))
    ]


def _settings(fitted: Fitted, settings: Settings) -> dict[str, Any]:
    """What was asked for, and what the estimator made of it."""
    asked = {name: value for name, value in asdict(settings).items() if value not in (None, ())}
    given = fitted.model.estimator.get_params()
    dropped = {"rows without a target, dropped": fitted.without_target} if fitted.without_target else {}
    return {**asked, "task": f"{fitted.model.task} ({fitted.reason})", **dropped, **given}


def _versions() -> dict[str, str]:
    return {
        "whvi": whvi.__version__,
        "kernel": whvi.kernel_info().backend,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "jinja2": metadata.version("jinja2"),
        "pandas": pandas.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }
