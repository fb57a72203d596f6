"""Figure: WHVI against a tensor factorisation of the weights."""

from collections.abc import Sequence

from whvi.page import figure_svg
from whvi_paper import grid
from whvi_paper.blocks import Figure, Shown
from whvi_paper.curves import draw_curves, learning_curves
from whvi_paper.exhibits.structures import DATASET, METRICS, STEPS, paper
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table
from whvi_paper.store import Record

NAME = "tensor"
TITLE = "Against tensor factorisation"
SOURCE = "Figure 3"
TEXT = (
    "Two hidden layers, on the subset drive-2200; the number of units is in parentheses. The tensor layer has the same "
    "asymptotic cost: rank log2 D and D / (log2 D)^2 cores."
)
METHODS, WIDTHS = ("whvi", "tensor"), (64, 128)


def jobs(profile: str) -> list[Job]:
    """Two methods, two widths."""
    shapes = [(2, width) for width in WIDTHS]
    return grid.jobs(NAME, [DATASET], METHODS, shapes, profile, most_steps=STEPS, curve_every=500)


def label(record: Record) -> str:
    """Method and units."""
    inputs = record["inputs"]
    return f"{inputs['method']} ({inputs['width']})"


def show(records: Sequence[Record]) -> Shown:
    """Learning curves, and where they end."""
    from matplotlib.figure import Figure as Canvas

    entries = grid.entries(NAME, records, paper, METRICS, METHODS)
    canvas = Canvas(figsize=(6, 3.6), layout="constrained")
    draw_curves(canvas.subplots(), learning_curves(records, label), DATASET)
    figure = Figure("Learning curves", figure_svg(canvas), alternative="Test MNLL against steps, WHVI and tensor.")
    return Shown(NAME, TITLE, SOURCE, TEXT, [figure, comparison_table(entries, TITLE, METRICS)], entries)
