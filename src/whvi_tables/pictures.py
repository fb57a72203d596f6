"""The drawings of a report, in colours that follow the page from light to dark."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whvi.page import figure_svg
from whvi.predictive import plots, reliability
from whvi_tables.judging import BINS, LEVELS, Classes, Judgement, Numbers

History = Mapping[str, Sequence[float]]

_VARIABLES = {
    "#fe0100": "main", "#fe0101": "second", "#fe0103": "miss", "#fe0105": "ink", "#fe0106": "line",
    "#737373": "faint", "#999999": "faint", "#000000": "ink", "#ffffff": "ground",
}  # fmt: skip
"""Colours that are drawn with, and the variable of the page's style that each becomes."""
_STYLE: Any = {
    "axes.prop_cycle": cycler(color=["#fe0100", "#fe0101", "#fe0101", "#fe0103"]),
    "text.color": "#fe0105", "axes.labelcolor": "#fe0105", "axes.titlecolor": "#fe0105", "axes.titlesize": 10,
    "xtick.color": "#737373", "ytick.color": "#737373", "axes.edgecolor": "#fe0106", "grid.color": "#fe0106",
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False, "legend.loc": "upper left",
}  # fmt: skip
_SIZE = (4.8, 4.2)
MOST_POINTS = 5000
"""Held-out rows that are drawn one by one; a browser should show the page at once."""


class Picture(NamedTuple):
    """A drawing and its words."""

    title: str
    caption: str
    svg: str


def pictures(judgement: Judgement, history: History, target: str) -> list[Picture]:
    """Predictions against truth, calibration, uncertainty, and how learning went."""
    parts = _of_numbers(judgement, target) if isinstance(judgement, Numbers) else _of_classes(judgement)
    return [*parts, _picture("Learning curve", _learning_words(history), lambda axis: _learning(axis, history))]


def _of_numbers(found: Numbers, target: str) -> list[Picture]:
    part = _drawn(len(found.y))
    y, mean, low, high = (torch.from_numpy(values[part]) for values in (found.y, found.mean, found.low, found.high))
    rows = f"Each held-out row (here {len(y):,} of them)" if len(y) < len(found.y) else "Each held-out row"

    def against(axis: Axes) -> None:
        plots.plot_predictions(y, mean, low, high, axis=axis)
        axis.set(xlabel=f"true {target}", ylabel="predicted, with its interval", aspect="auto")

    def calibration(axis: Axes) -> None:
        plots.plot_calibration(torch.from_numpy(LEVELS), torch.from_numpy(found.observed), axis=axis)

    share = f"{100 * found.level:g} %"
    return [
        _picture(
            "Predictions against truth",
            f"{rows}: the predicted mean and its {share} interval. On the dashed line the prediction is exact.",
            against,
        ),
        _picture(
            "Calibration",
            "Fraction of targets below each predicted quantile. Below the line at the left, or above it at the right, "
            "intervals are too wide; the other way they are too narrow.",
            calibration,
        ),
        _picture(
            "Uncertainty",
            "Does the model know where it is wrong? Error against predicted standard deviation; if it does, about 68 %"
            " of the rows lie below the dashed line, and 95 % below the dotted one.",
            lambda axis: _uncertainty(axis, found),
        ),
    ]


def _of_classes(found: Classes) -> list[Picture]:
    given, labels = torch.from_numpy(found.probabilities), torch.from_numpy(found.labels)
    return [
        _picture(
            "Predictions against truth", "Rows of each true class by predicted class.", lambda axis: _table(axis, found)
        ),
        _picture(
            "Calibration",
            "Accuracy against confidence: on the dashed line, a confidence of 80 % is correct in 80 of 100 rows.",
            lambda axis: plots.plot_reliability(reliability(given, labels, BINS), axis=axis),
        ),
        _picture(
            "Uncertainty",
            "Does the model know where it is wrong? Wrong rows should have a larger entropy.",
            lambda axis: _entropies(axis, found),
        ),
    ]


def _drawn(count: int) -> slice:
    """So many rows, or every second, third, ... of them, so that there are not too many.

    >>> len(range(5001)[_drawn(5001)]), len(range(5000)[_drawn(5000)])
    (2501, 5000)
    """
    return slice(None, None, max(1, -(-count // MOST_POINTS)))


def _picture(title: str, caption: str, draw: Callable[[Axes], object]) -> Picture:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        draw(figure.subplots())
        svg = figure_svg(figure)
    colours = re.compile("|".join(_VARIABLES))
    return Picture(title, caption, colours.sub(lambda match: f"var(--{_VARIABLES[match[0]]})", svg))


def _uncertainty(axis: Axes, found: Numbers) -> None:
    error = np.abs(found.y - found.mean)
    top = 1.05 * found.std.max()
    for rows, colour, label in ((found.hits, "C0", "interval holds y"), (~found.hits, "C3", "interval misses y")):
        label = f"{label}: {int(rows.sum()):,}"
        part = _drawn(int(rows.sum()))
        axis.plot(found.std[rows][part], error[rows][part], "o", color=colour, markersize=3.5, alpha=0.8, label=label)
    for factor, style in ((1, "--"), (2, ":")):
        axis.plot([0, top], [0, factor * top], style, color="0.45", linewidth=1)
    within = 100 * float((error <= found.std).mean())
    axis.grid(alpha=0.6)
    axis.set(xlim=(0.95 * found.std.min(), top), ylim=(0, 1.25 * max(error.max(), found.std.max())))
    axis.set(xlabel="predicted standard deviation", ylabel="absolute error", title=f"{within:.0f} % within 1 std")
    axis.legend(loc="upper left")


def _table(axis: Axes, found: Classes) -> None:
    size = len(found.classes)
    counts = np.zeros((size, size))
    np.add.at(counts, (found.labels, found.guess), 1)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for row in range(size):
        for column in range(size):
            colour = "C0" if row == column else "C3"
            axis.fill_between([column - 0.5, column + 0.5], row - 0.5, row + 0.5, color=colour,
                              alpha=0.75 * float(share[row, column]), linewidth=0)  # fmt: skip
            if size <= 12 and counts[row, column]:
                axis.text(column, row, f"{counts[row, column]:.0f}", ha="center", va="center", fontweight="bold")
    names = [name if len(name) <= 12 else f"{name[:11]}…" for name in found.classes]
    axis.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="predicted", ylabel="true")
    if size <= 20:
        axis.set_xticks(range(size), names, rotation=0 if sum(map(len, names)) < 36 else 45)
        axis.set_yticks(range(size), names)
    axis.set_title(f"{int(found.hits.sum()):,} of {len(found.y):,} right")


def _entropies(axis: Axes, found: Classes) -> None:
    edges = np.linspace(0, np.log(len(found.classes)), 21)
    parts = [found.entropy[found.hits], found.entropy[~found.hits]]
    labels = [f"right: {len(parts[0]):,}", f"wrong: {len(parts[1]):,}"]
    axis.hist(parts, edges.tolist(), stacked=True, color=["C0", "C3"], label=labels, alpha=0.85)
    axis.grid(alpha=0.6)
    axis.set_axisbelow(True)
    means = [f"{part.mean():.2f}" if len(part) else "none" for part in parts]
    axis.set(xlabel="predictive entropy, nats", ylabel="rows", title=f"mean if right {means[0]}, if wrong {means[1]}")
    axis.legend(loc="upper right")


def _learning(axis: Axes, history: History) -> None:
    step, bound = np.asarray(history["step"]), np.asarray(history["elbo"])
    axis.plot(step, bound, color="C0", linewidth=1.8, label="lower bound (ELBO)")
    axis.set_ylim(*_window(bound))
    axis.grid(alpha=0.6)
    axis.set(xlabel="step", ylabel="ELBO, nats")
    looks = np.asarray(history["validation_mnll"], dtype=np.float64)
    seen = np.isfinite(looks)
    if seen.any():
        other = axis.twinx()
        other.plot(step[seen], looks[seen], color="C1", linewidth=1.8, label="validation MNLL")
        other.set_ylim(*_window(looks[seen]))
        other.set_ylabel("validation MNLL, nats per row")
        lines = [axis.lines[0], other.lines[0]]
        axis.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _learning_words(history: History) -> str:
    looked = np.isfinite(np.asarray(history["validation_mnll"], dtype=np.float64)).any()
    best = " The kept model is that of the lowest validation MNLL." if looked else ""
    return f"A curve that is still rising at the end needs more --steps.{best}"


def _window(values: np.typing.NDArray[np.float64]) -> tuple[float, float]:
    """Limits that show the end of a curve, whatever its first steps were."""
    late = values[len(values) // 10 :]
    low, high = float(late.min()), float(late.max())
    room = 0.08 * (high - low) or 1.0
    return low - room, high + room
