"""What exhibits that measure have in common: one thread, the machine, growth with a size, and how they are drawn."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import log, nan
from statistics import linear_regression, median, quantiles
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from whvi.errors import ArgumentError
from whvi_paper import recipe
from whvi_paper.bench.suite import machine
from whvi_paper.bench.timing import interleaved, single_calls
from whvi_paper.blocks import Entry, Shown, TextCell
from whvi_paper.jobs import Inputs
from whvi_paper.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST = 4
"""Sizes that an exponent is fitted to: the largest ones, where overhead counts least."""
LABELS = {
    "whvi": "WHVI",
    "mfg": "mean field",
    "mcd": "MC dropout",
    "nng": "matrix Gaussian",
    "tensor": "tensor factorisation",
}
COLOURS = dict(zip(LABELS, ("C0", "C1", "C2", "C3", "C4"), strict=True))
Points = dict[str, list[tuple[int, float]]]
"""Name of a contender: sizes in order, each with what was measured there."""

Plan = TypeVar("Plan")


def plan(plans: Mapping[str, Plan], profile: str) -> Plan:
    """What an exhibit measures under a profile."""
    recipe.profile(profile)  # which refuses an unknown one
    if profile not in plans:
        raise ArgumentError(f"this exhibit has no profile {profile!r}; use one of: {', '.join(plans)}")
    return plans[profile]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch on so many threads within the block; times are compared on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def timed(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Any]:
    """Metrics: the median seconds of each contender, all in turn in this process, and the machine."""
    with threads(1):
        seconds = interleaved(contenders, rounds=rounds)
        return {"seconds": {name: float(f"{value:.4g}") for name, value in seconds.items()}, "machine": machine()}


def distributions(contenders: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, Any]:
    """Results: the median seconds of so many calls of each contender, the machine, and beside the metrics all times."""
    with threads(1):
        times = single_calls(contenders, repetitions)
        seconds = {name: float(f"{median(values):.4g}") for name, values in times.items()}
        rounded = {name: [float(f"{value:.4g}") for value in values] for name, values in times.items()}
        return {"metrics": {"seconds": seconds, "machine": machine()}, "times": rounded}


def box(times: Sequence[float]) -> dict[str, float]:
    """What a box plot draws: quartiles, and as ends of the whiskers the 5 % and the 95 % quantile.

    >>> box([1.0, 2.0, 3.0, 4.0, 5.0])["med"]
    3.0
    """
    twentieths = quantiles(times, n=20, method="inclusive")
    return dict(zip(("whislo", "q1", "med", "q3", "whishi"), (twentieths[i] for i in (0, 4, 9, 14, 18)), strict=True))


def draw_boxes(
    axis: "Axes",
    boxes: Mapping[str, Mapping[int, Mapping[str, float]]],
    labels: Mapping[str, str],
    colours: Mapping[str, str],
) -> None:
    """For each name and each size a box, boxes of one size side by side, on a logarithmic axis."""
    sizes = sorted({size for line in boxes.values() for size in line})
    step = 0.8 / max(1, len(boxes))
    for place, (name, line) in enumerate(boxes.items()):
        at = [sizes.index(size) + (place - (len(boxes) - 1) / 2) * step for size in line]
        axis.bxp(
            [dict(one) for one in line.values()], positions=at, widths=0.8 * step, showfliers=False,
            boxprops={"color": colours[name]}, whiskerprops={"color": colours[name]},
            capprops={"color": colours[name]}, medianprops={"color": colours[name]},
        )  # fmt: skip
        axis.plot([], [], color=colours[name], label=labels[name])
    axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axis.set_yscale("log")
    axis.grid(alpha=0.3)


def points(records: Iterable[Record], size: str, metric: str) -> Points:
    """A metric that has a value for each contender, against an input."""
    found: Points = {}
    for record in sorted(records, key=lambda record: int(record["inputs"][size])):
        for name, value in record["results"]["metrics"][metric].items():
            found.setdefault(name, []).append((record["inputs"][size], value))
    return found


def entries(exhibit: str, records: Iterable[Record], place: Callable[[Inputs], tuple[str, int]]) -> list[Entry]:
    """What was measured of each contender, as published numbers: ``place`` gives the data and the size of a record."""
    return [
        Entry(exhibit, name, *_at(place(record["inputs"])), metric, value, nan, 1, records=(record["name"],))
        for record in records
        for metric, values in record["results"]["metrics"].items()
        if metric != "machine"
        for name, value in values.items()
    ]


def _at(place: tuple[str, int]) -> tuple[str, str, int, int]:
    """Dataset, model, depth and width of an entry."""
    return place[0], "measured", 0, place[1]


def exponent(line: Sequence[tuple[int, float]]) -> float:
    """The least-squares slope of log(value) against log(size) over the largest sizes; NaN for less than two.

    Law: c * size^p has the exponent p.

    >>> round(exponent([(size, 5.0 * size**1.5) for size in (8, 16, 32)]), 6)
    1.5
    """
    if len(line) < 2:
        return nan
    sizes, values = zip(*line[-LARGEST:], strict=True)
    return linear_regression([log(size) for size in sizes], [log(value) for value in values]).slope


def in_two_parts(
    records: Sequence[Record],
    key: str,
    without: Callable[[Sequence[Record]], Shown],
    having: Callable[[Sequence[Record]], Shown],
) -> Shown:
    """An exhibit of records of two kinds, which an input tells apart: what is seen of either, one after the other."""
    second = [record for record in records if key in record["inputs"]]
    first = [record for record in records if key not in record["inputs"]]
    parts = [show(mine) for show, mine in ((without, first), (having, second)) if mine]
    return replace(
        parts[0],
        text=" ".join(part.text for part in parts),
        blocks=[block for part in parts for block in part.blocks],
        entries=[entry for part in parts for entry in part.entries],
    )


def where(records: Iterable[Record]) -> str:
    """The machines of the records, as a sentence."""
    machines = (record["results"]["metrics"]["machine"] for record in records)
    kinds = dict.fromkeys(
        f"{one['processor']} ({one['isa'] or one['backend']}) with torch {one['torch']}, threads: {one['cores']}"
        for one in machines
    )
    return f"Measured on {'; '.join(kinds)}."


def cells(*texts: str) -> tuple[TextCell, ...]:
    """A row of a table."""
    return tuple(map(TextCell, texts))


def draw_lines(axis: "Axes", lines: Points, labels: Mapping[str, str], colours: Mapping[str, str]) -> None:
    """A line for each name of ``labels`` that was measured, on logarithmic axes."""
    for name in labels:
        if name in lines:
            axis.plot(*zip(*lines[name], strict=True), "o-", color=colours[name], label=labels[name], markersize=3)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.grid(alpha=0.3)
