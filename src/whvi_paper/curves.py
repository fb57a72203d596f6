"""Drawings of trained networks: what became of a metric with the steps, or with the size."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import nan
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from whvi_paper.blocks import Entry
from whvi_paper.measured import COLOURS
from whvi_paper.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes


EARLY, SHARE = "mnll_early", 0.2
"""The metric: test MNLL after this share of the steps."""


def early(entries: Iterable[Entry], records: Iterable[Record]) -> list[Entry]:
    """Of each network that has a curve, the first value of it at or after a fifth of the steps, as published numbers.

    Args:
        entries: of the networks, for one metric; what they are of, and which records they have.
        records: these and others.
    """
    by_name = {record["name"]: record for record in records}
    found = []
    for entry in entries:
        values = [value for name in entry.records if (value := _early(by_name[name])) is not None]
        if values and len(values) == entry.n:
            spread = stdev(values) if len(values) > 1 else nan
            found.append(replace(entry, metric=EARLY, mean=fmean(values), std=spread, paper_mean=None, paper_std=None,
                                 paper_corrected=None))  # fmt: skip
    return found


def _early(record: Record) -> float | None:
    wanted = SHARE * record["inputs"]["steps"]
    return next((value for step, value in record["results"].get("curve", ()) if step >= wanted), None)


def learning_curves(records: Iterable[Record], label: Callable[[Record], str]) -> dict[str, list[tuple[int, float]]]:
    """(step, test MNLL) averaged over the splits that have it, for each label."""
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for step, value in record["results"].get("curve", ()):
            values[label(record)][step].append(value)
    return {name: [(step, fmean(found)) for step, found in sorted(steps.items())] for name, steps in values.items()}


def draw_curves(axis: "Axes", curves: dict[str, list[tuple[int, float]]], title: str) -> None:
    """Test MNLL against the steps, one line for each label; what lies far above the rest is cut off."""
    axis.set(title=title, xlabel="steps", ylabel="test MNLL")
    if not curves:  # a run too short for a point
        return
    for name, points in curves.items():
        axis.plot(*zip(*points, strict=True), label=name, color=COLOURS.get(name))
    ends = sorted(points[-1][1] for points in curves.values())
    low = min(value for points in curves.values() for _, value in points)
    if len(ends) > 1:
        axis.set_ylim(low - 0.05 * (ends[-1] - low), ends[-1] + 1.5 * (ends[-1] - low))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def draw_sizes(
    axis: "Axes", entries: Sequence[Entry], lines: Callable[[Entry], str], title: str, paper: bool = False
) -> None:
    """A metric against the width with its std over splits; the paper's (corrected) dashed, where asked for."""
    for name in dict.fromkeys(map(lines, entries)):
        points = sorted((entry for entry in entries if lines(entry) == name), key=lambda entry: entry.width)
        widths = [entry.width for entry in points]
        bars = axis.errorbar(
            widths,
            [entry.mean for entry in points],
            [entry.std for entry in points],
            fmt="o-",
            capsize=3,
            label=name,
            color=COLOURS.get(name),
        )
        known = [(e.width, e.paper_corrected) for e in points if paper and e.paper_corrected is not None]
        if known:
            colour = bars.lines[0].get_color()
            axis.plot(*zip(*known, strict=True), "--", color=colour, alpha=0.6, label=f"{name}, paper")
    axis.set_xscale("log", base=2)
    ticks = sorted({entry.width for entry in entries})
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set(title=title, xlabel="hidden units", ylabel=f"test {entries[0].metric.upper()}")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
