"""Reliability diagrams of the convolutional networks: how often they are right, against how sure they are."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import TYPE_CHECKING

from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.exhibits import convnets
from whvi_paper.images.runs import COLOURS, NETWORKS, Runs, by_network, entries, rows
from whvi_paper.jobs import Job
from whvi_paper.measured import cells
from whvi_paper.report.compare import label
from whvi_paper.store import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "reliability"
TITLE = "Calibration of the convolutional networks"
SOURCE = "Figure beside Table 4"
METRICS = ("ece", "brier")
FEW = 10
"""Images: a bin with fewer is a point, and no line leads to it."""
TEXT = (
    "Test images are sorted into 15 bins by the probability of the predicted class. A point is a bin: the mean "
    "of these probabilities, and the fraction of correctly classified images; larger points have more images, "
    f"and lines omit bins with fewer than {FEW}. Below the diagonal a network is overconfident. The expected "
    "calibration error (ECE) is the mean distance to the diagonal over images. The networks are those of the "
    "table of convolutional networks; the paper shows only WHVI."
)


def jobs(profile: str) -> list[Job]:
    """Those of the table: nothing is computed twice."""
    return convnets.jobs(profile)


def show(records: Sequence[Record]) -> Shown:
    """A diagram for each network, and a table."""
    runs = by_network(records)
    words = "Accuracy against confidence, a panel for each network, a line for each method; ECE is in the table."
    figure = Figure("Reliability diagrams", draw(runs), alternative=words)
    return Shown(NAME, TITLE, SOURCE, TEXT, [figure, table(runs)], entries(NAME, runs, METRICS))


def table(runs: Runs) -> Table:
    """ECE and Brier score, and how sure and how right a network is over all images."""
    found = []
    for name, record in rows(runs):
        metrics, (confidence, accuracy) = record["results"]["metrics"], means(record)
        texts = (f"{value:.4f}" for value in (metrics["ece"], metrics["brier"], confidence, accuracy))
        found.append(cells(name, *texts, f"{confidence - accuracy:+.4f}"))
    head = ("network, method", "ECE", "Brier score", "mean confidence", "accuracy", "confidence - accuracy")
    return Table("Calibration on the test images", head, found)


def means(record: Record) -> tuple[float, float]:
    """Confidence and accuracy over all images.

    >>> means({"results": {"reliability": [[0.5, 0.4, 100], [0.9, 1.0, 300]]}})
    (0.8, 0.85)
    """
    bins = record["results"]["reliability"]
    total = sum(count for *_, count in bins)
    confidence, accuracy = (sum(one[place] * one[2] for one in bins) / total for place in (0, 1))
    return confidence, accuracy


def draw(runs: Runs) -> str:
    """A panel for each network."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(max(4.0, 3.1 * len(runs)), 3.4), layout="constrained")
    axes = canvas.subplots(1, len(runs), squeeze=False)[0]
    for axis, (model, done) in zip(axes, runs.items(), strict=True):
        draw_network(axis, done)
        axis.set(title=NETWORKS[model], xlabel="confidence", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
    axes[0].set_ylabel("accuracy")
    return figure_svg(canvas)


def draw_network(axis: "Axes", done: Mapping[str, Record]) -> None:
    """Accuracy against confidence, a line for each method, over the diagonal."""
    axis.plot([0, 1], [0, 1], "--", color="0.6", linewidth=1)
    for method, record in reversed([*done.items()]):  # WHVI above the others
        bins = record["results"]["reliability"]
        confidence, accuracy, count = zip(*bins, strict=True)
        sizes = [4 + 60 * sqrt(one / sum(count)) for one in count]
        name = f"{label(method)}, ECE {record['results']['metrics']['ece']:.3f}"
        joined = [one[:2] for one in bins if one[2] >= FEW] or [one[:2] for one in bins]
        axis.plot(*zip(*joined, strict=True), color=COLOURS[method], linewidth=2 if method == "whvi" else 1, label=name)
        axis.scatter(confidence, accuracy, sizes, color=COLOURS[method], alpha=0.8, linewidths=0)
    handles, names = axis.get_legend_handles_labels()
    axis.legend(handles[::-1], names[::-1], fontsize=7, loc="lower right")
    axis.grid(alpha=0.3)
