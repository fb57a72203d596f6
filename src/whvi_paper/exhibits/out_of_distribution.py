"""Images of another kind: whether the uncertainty of the convolutional networks tells them from the test images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING

from whvi_paper import grid
from whvi_paper.blocks import Block, Entry, Figure, Shown, Table, TextCell
from whvi_paper.exhibits import convnets
from whvi_paper.images.runs import COLOURS, NETWORKS, Runs, by_network, rows
from whvi_paper.jobs import Job
from whvi_paper.measured import cells
from whvi_paper.report.compare import label
from whvi_paper.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "out-of-distribution"
TITLE = "Images of another kind"
SOURCE = "not in the paper"
SCORES = {"auroc_entropy": "entropy", "auroc_mutual_information": "mutual information"}
"""What uncertainty is, by the name of its AUROC in records."""
KINDS = {
    "noise": "pixels drawn uniformly",
    "rotated": "turned by one to three quarters",
    "speckled": "Gaussian noise, its deviation a fifth of the range",
    "blurred": "means of 5 x 5 pixels",
    "faded": "a quarter of the contrast",
}
TEXT = (
    "This is our addition; the paper has no such table. The networks of the table of convolutional networks "
    "predict modified test images: "
    + "; ".join(f"{name}: {words}" for name, words in KINDS.items())
    + (
        ". AUROC is the probability that such an image is more uncertain than an unmodified test image: 1 "
        "separates them perfectly, 0.5 is chance. Uncertainty is the entropy of the predictive distribution, or "
        "the mutual information of class and weights, which is the part of it that more data would reduce. If "
        "modified images can still be recognised, a network has no reason to be less certain, so the table also "
        "has the error on them."
    )
)


def jobs(profile: str) -> list[Job]:
    """Those of the table of networks: nothing is computed twice. Some networks are not shown other images there."""
    return convnets.jobs(profile)


def show(records: Sequence[Record]) -> Shown:
    """AUROC drawn and in numbers, and the error."""
    runs = by_network(record for record in records if record["results"]["shifts"])
    return Shown(NAME, TITLE, SOURCE, TEXT, blocks(runs) if runs else [], entries(runs))


def blocks(runs: Runs) -> list[Block]:
    """A figure and its numbers, then errors."""
    words = "AUROC of each kind of images, a panel for each network, a mark for each method; the table has the numbers."
    figure = Figure(
        "Telling images of another kind", draw(runs), "Filled: by entropy; hollow: by mutual information.", words
    )
    return [figure, detection_table(runs), error_table(runs)]


def entries(runs: Runs) -> list[Entry]:
    """One for each score, network, method and kind: the metric names score and kind."""
    found = []
    for _, record in rows(runs):
        inputs, results = record["inputs"], record["results"]
        metrics = {f"{score} {kind}": value for kind, one in results["shifts"].items() for score, value in one.items()}
        run = {**record, "results": {**results, "metrics": metrics}}
        place = Entry(NAME, inputs["method"], inputs["dataset"], inputs["model"], 0, 0, "", nan, nan, 0)
        found += [grid.filled(replace(place, metric=metric), [run]) for metric in metrics]
    return found


def detection_table(runs: Runs) -> Table:
    """AUROC by both scores."""
    found = []
    for name, record in rows(runs):
        shifts = record["results"]["shifts"]
        texts = (" / ".join(f"{shifts[kind][score]:.3f}" for score in SCORES) for kind in KINDS)
        found.append(cells(name, *texts))
    return Table(f"AUROC by {' / by '.join(SCORES.values())}", ("network, method", *KINDS), found)


def error_table(runs: Runs) -> Table:
    """Errors on test images as they are, and changed; noise has no class."""
    kinds = [kind for kind in KINDS if kind != "noise"]
    found = []
    for name, record in rows(runs):
        results = record["results"]
        errors = (results["metrics"]["error"], *(results["shifts"][kind]["error"] for kind in kinds))
        found.append([TextCell(name), *(TextCell(f"{error:.3f}") for error in errors)])
    return Table("Test error", ("network, method", "as they are", *kinds), found)


def draw(runs: Runs) -> str:
    """A panel for each network."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(max(4.5, 3.2 * len(runs)), 3.4), layout="constrained")
    axes = canvas.subplots(1, len(runs), squeeze=False, sharey=True)[0]
    for axis, (model, done) in zip(axes, runs.items(), strict=True):
        draw_network(axis, done)
        axis.set_title(NETWORKS[model])
    axes[0].set_ylabel("AUROC")
    marks = {name: mark for axis in axes for mark, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    canvas.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=len(marks), fontsize=8)
    return figure_svg(canvas)


def draw_network(axis: "Axes", done: Mapping[str, Record]) -> None:
    """Kinds side by side, and in each a column for each method."""
    axis.axhline(0.5, color="0.6", linestyle="--", linewidth=1)
    for place, (method, record) in enumerate(done.items()):
        across = [number + (place - (len(done) - 1) / 2) * 0.7 / len(done) for number in range(len(KINDS))]
        for score, fill in zip(SCORES, (COLOURS[method], "none"), strict=True):
            heights = [record["results"]["shifts"][kind][score] for kind in KINDS]
            name = label(method) if fill != "none" else None
            axis.plot(across, heights, "o", color=COLOURS[method], markerfacecolor=fill, markersize=5, label=name)
    axis.set_xticks(range(len(KINDS)), list(KINDS), fontsize=8)
    axis.grid(alpha=0.3, axis="y")
