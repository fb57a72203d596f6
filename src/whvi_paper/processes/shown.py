"""What the records of Gaussian processes say: cells by what they are of, a drawing, a table, and claims in numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import log, nan
from typing import NamedTuple

from whvi_paper import measured
from whvi_paper.blocks import Entry, Table, TextCell
from whvi_paper.report.compare import duration
from whvi_paper.store import Record

LABELS = {"whvi": "WHVI", "vi": "variational features", "svgp": "inducing points", "exact": "exact"}
COLOURS = {"whvi": "C0", "vi": "C1", "svgp": "C3"}
COVARIANCES = {"diagonal": "mean field", "full": "full covariance"}
PAPER = "paper"
"""The variation that is none."""
CLOSE = 0.1
"""A gap is closed when no more than this share of the logarithm of the ratio of both RMSEs is left."""
TEXT = (
    "A fifth of the rows trains, the rest tests; inputs in the unit cube, outputs standardised, so that an RMSE of 1 "
    "is that of the mean. All methods start from the same kernel (lengthscales sqrt(F / 2), variance 1) and noise "
    "(standard deviation 0.02), which are learned jointly, the noise after five sixths of {steps:,} steps of Adam. WHVI"
    " has side² features; variational features and inducing points have as few as reach its number of parameters, "
    "where those of kernel and noise do not count, and the places of inducing points do (the paper does not say). "
    "Batches have 128 rows, of which the paper says nothing. {functions} One seed. Variations are ours, at the "
    "largest side: “decayed”, a rate of 0.01 that falls to zero along a cosine, with the noise learned after a twelfth "
    "of the steps, alike for all methods and not chosen for any of them; and with it, other projections. {claims}"
)


class Key(NamedTuple):
    """What a record is of."""

    dataset: str
    variation: str
    covariance: str
    side: int
    """0 for an exact process."""
    method: str


class Cells:
    """Records by their keys."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.found = {key_of(record): record for record in records}
        keys = self.found.keys()
        self.datasets = list(dict.fromkeys(key.dataset for key in keys))
        self.sides = sorted({key.side for key in keys} - {0})

    def value(self, key: Key, metric: str = "rmse") -> float | None:
        """A metric of a record, if it is there."""
        record = self.found.get(key)
        return None if record is None else float(record["results"]["metrics"][metric])

    def pairs(self, one: str, other: str, variation: str = PAPER) -> Iterator[tuple[Key, float, float]]:
        """RMSE of two methods, wherever both are there."""
        for key in self.found:
            if key.method == one and key.variation == variation:
                ours, theirs = self.value(key), self.value(key._replace(method=other))
                if ours is not None and theirs is not None:
                    yield key, ours, theirs

    def line(self, dataset: str, covariance: str, method: str, variation: str = PAPER) -> list[tuple[int, float]]:
        """(parameters, RMSE) for each side."""
        keys = (Key(dataset, variation, covariance, side, method) for side in self.sides)
        return [
            (self.found[key]["results"]["parameters"], self.found[key]["results"]["metrics"]["rmse"])
            for key in keys
            if key in self.found
        ]


def key_of(record: Record) -> Key:
    """What a record is of."""
    inputs = record["inputs"]
    return Key(inputs["dataset"], inputs["variation"], inputs["covariance"], inputs.get("side", 0), inputs["method"])


def told(cells: Cells) -> str:
    """The protocol, and what came out of it."""
    trained = [record["inputs"] for key, record in cells.found.items() if key.side]
    steps = max((one["steps"] for one in trained), default=0)
    samples = {one["samples"] for one in trained}
    functions = f"Random features predict with {samples.pop()} functions." if len(samples) == 1 else ""
    claims = " ".join(filter(None, (against_features(cells), against_points(cells), *closed(cells), ceiling(cells))))
    return TEXT.format(steps=steps, functions=functions, claims=claims)


def against_features(cells: Cells) -> str:
    """On how many datasets WHVI beats variational features of the same number of parameters."""
    parts = []
    for variation, side, (covariance, name) in product((PAPER, "decayed"), cells.sides, COVARIANCES.items()):
        better = [
            ours < theirs
            for key, ours, theirs in cells.pairs("whvi", "vi", variation)
            if (key.covariance, key.side) == (covariance, side)
        ]
        if better:
            parts.append(f"{sum(better)} of {len(better)} datasets ({_variation(variation)}, side {side}, {name})")
    return f"WHVI has a lower RMSE than variational features on {'; '.join(parts)}." if parts else ""


def against_points(cells: Cells) -> str:
    """RMSE of WHVI as a multiple of that of inducing points, at the largest side."""
    parts = []
    for variation in (PAPER, "decayed"):
        ratios = [
            (ours / theirs, f"{key.dataset}, {COVARIANCES[key.covariance]}")
            for key, ours, theirs in cells.pairs("whvi", "svgp", variation)
            if key.side == cells.sides[-1]
        ]
        if ratios:
            (low, where_low), (high, where_high) = min(ratios), max(ratios)
            better = sum(ratio < 1 for ratio, _ in ratios)
            parts.append(
                f"{low:.2f} ({where_low}) to {high:.2f} ({where_high}) times, less than 1 in {better} of "
                f"{len(ratios)} cases ({_variation(variation)})"
            )
    return f"Its RMSE is that of inducing points {'; '.join(parts)}." if parts else ""


def closed(cells: Cells) -> list[str]:
    """For each variation of WHVI, where it closes the gap to inducing points.

    A decayed variation is measured against decayed inducing points, the others against those of the paper's protocol.
    """
    found = []
    variations = dict.fromkeys(key.variation for key in cells.found if key.method == "whvi" and key.variation != PAPER)
    for variation in variations:
        rival = "decayed" if variation.startswith("decayed") else PAPER
        there = []
        for key, ours, theirs in cells.pairs("whvi", "svgp"):
            changed = cells.value(key._replace(variation=variation))
            reached = cells.value(key._replace(variation=rival, method="svgp"))
            if changed and reached and ours > theirs and log(changed / reached) <= CLOSE * log(ours / theirs):
                there.append(f"{key.dataset} ({COVARIANCES[key.covariance]})")
        if there:
            found.append(
                f"{_variation(variation).capitalize()} closes the gap to inducing points on {', '.join(there)}."
            )
    if variations and not found:
        return ["No variation closes the gap to inducing points."]
    return found


def ceiling(cells: Cells) -> str:
    """What exact processes on few rows reach."""
    values = [
        f"{key.dataset} {record['results']['metrics']['rmse']:.3g}"
        for key, record in cells.found.items()
        if key.method == "exact"
    ]
    rows = {record["results"]["rows"] for key, record in cells.found.items() if key.method == "exact"}
    return f"An exact process on {max(rows):,} rows has RMSE {', '.join(values)}." if values else ""


def _variation(name: str) -> str:
    return "paper's protocol" if name == PAPER else f"variation {name}"


def entries(exhibit: str, cells: Cells, metrics: Sequence[str]) -> list[Entry]:
    """All numbers of the tables: the model says the covariance and the variation, the width is the side."""
    found = []
    for key, record in cells.found.items():
        model = " ".join(["gp", *[key.covariance] * bool(key.side), *[key.variation] * (key.variation != PAPER)])
        place = Entry(
            exhibit, key.method, key.dataset, model, 0, key.side, "", nan, nan, 1, records=(record["name"],),
            cpu_seconds=record.get("cpu_seconds"), parameters=record["results"].get("parameters"),
        )  # fmt: skip
        values = {metric: cells.value(key, metric) for metric in metrics}
        found += [replace(place, metric=name, mean=value) for name, value in values.items() if value is not None]
    return found


def table(cells: Cells, metric: str) -> Table:
    """A row for each dataset, covariance, side and variation; a column for each method."""
    keys = dict.fromkeys(key._replace(method="") for key in cells.found)
    rows = [
        [TextCell(name_of(key)), *(_field(cells, key._replace(method=method), metric) for method in LABELS)]
        for key in keys
    ]
    caption = "Outputs are standardised. Point at a number for its parameters, learned noise and CPU time."
    return Table(f"Test {metric.upper()}", ("dataset", *LABELS.values()), rows, caption)


def name_of(key: Key) -> str:
    """For people.

    >>> name_of(Key("robot", "decayed", "full", 64, "whvi")), name_of(Key("robot", "exact", "full", 0, "exact"))
    ('robot, full covariance, side 64, decayed', 'robot, exact')
    """
    if not key.side:
        return f"{key.dataset}, exact"
    variation = [] if key.variation == PAPER else [key.variation]
    return ", ".join([key.dataset, COVARIANCES[key.covariance], f"side {key.side}", *variation])


def _field(cells: Cells, key: Key, metric: str) -> TextCell:
    value = cells.value(key, metric)
    if value is None:
        return TextCell("–", note="not run")
    record = cells.found[key]
    results = record["results"]
    sizes = [f"{results[name]:,} {name}" for name in ("parameters", "features", "points", "rows") if name in results]
    cpu = [f"CPU {duration(record['cpu_seconds'])}"] if "cpu_seconds" in record else []
    return TextCell(f"{value:.3g}", note=", ".join([*sizes, f"noise {results['metrics']['noise']:.3g}", *cpu]))


def draw(cells: Cells) -> str:
    """Top: mean field, bottom: full covariance; a panel for each dataset, and the exact process as a line across."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(2.5 * max(2, len(cells.datasets)), 5), layout="constrained")
    axes = canvas.subplots(len(COVARIANCES), len(cells.datasets), squeeze=False)
    for row, (covariance, name) in zip(axes, COVARIANCES.items(), strict=True):
        row[0].set_ylabel(f"{name}: test RMSE")
        for axis, dataset in zip(row, cells.datasets, strict=True):
            lines = {method: cells.line(dataset, covariance, method) for method in COLOURS}
            measured.draw_lines(axis, {k: line for k, line in lines.items() if line}, LABELS, COLOURS)
            for method, colour in COLOURS.items():
                for point in cells.line(dataset, covariance, method, "decayed"):
                    axis.plot(*point, "o", color=colour, markerfacecolor="none", markersize=6)
            exact = cells.value(Key(dataset, "exact", "full", 0, "exact"))
            if exact is not None:
                axis.axhline(exact, color="0.4", linestyle=":", label=LABELS["exact"])
            axis.set_title(dataset, fontsize=10)
            axis.set(xlabel="parameters", yscale="linear")  # errors of a panel are of one size
            axis.xaxis.set_major_formatter("{x:.0f}")
    marks = {name: mark for mark, name in zip(*axes[0][0].get_legend_handles_labels(), strict=True)}
    if marks:
        canvas.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=len(marks), fontsize=8)
    return figure_svg(canvas)
