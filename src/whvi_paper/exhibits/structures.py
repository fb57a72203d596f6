"""Table 2 and Figure 2: other structures of the weight, with scales that are optimised or have a posterior."""

from collections.abc import Sequence

from whvi.page import figure_svg
from whvi_paper import grid, printed
from whvi_paper.blocks import Figure, Shown
from whvi_paper.curves import draw_curves, learning_curves
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table
from whvi_paper.store import Record

NAME = "structures"
TITLE = "Structures of the weight matrix"
SOURCE = "Table 2 and Figure 2"
DATASET = "drive-2200"
TEXT = (
    "Two hidden layers of 64 units. The paper used the complete Sensorless Drive data (58,509 rows); this is a subset "
    "of 2,200 rows, so its numbers are shown for the order of the methods, not to be reached."
)
METHODS = (
    "whvi", "mcd", "GH", "S_opt H G H", "S_var H G H", "S_opt H G H S_opt H", "S_var H G H S_var H",
    "S_var H G H S_var", "S_opt H G P H S_opt",
)  # fmt: skip
METRICS = ("error", "mnll", "ece")
STEPS = 10_100
"""A fifth of the usual: there are few rows, and the curves are flat by then."""


def jobs(profile: str) -> list[Job]:
    """One dataset, nine methods: the paper's, and WHVI with the permutation that it calls not critical."""
    return grid.jobs(NAME, [DATASET], METHODS, [(2, 64)], profile, most_steps=STEPS, curve_every=500)


def paper(method: str, dataset: str, metric: str, depth: int, width: int) -> printed.Pair | None:
    """The paper prints no spread, and has other data: no number to be compared with."""
    return None


def show(records: Sequence[Record]) -> Shown:
    """The table, the paper's in its caption, and the learning curves."""
    from matplotlib.figure import Figure as Canvas

    entries = grid.entries(NAME, records, paper, METRICS, METHODS)
    known = "; ".join(f"{method} {error:.3f} / {mnll:.3f}" for method, (error, mnll) in printed.STRUCTURES.items())
    table = comparison_table(entries, TITLE, METRICS, f"The paper, on the complete data, error / MNLL: {known}.")
    canvas = Canvas(figsize=(7, 4), layout="constrained")
    draw_curves(canvas.subplots(), learning_curves(records, lambda record: record["inputs"]["method"]), DATASET)
    figure = Figure("Learning curves", figure_svg(canvas), alternative="Test MNLL against steps for each structure.")
    return Shown(NAME, TITLE, SOURCE, TEXT, [table, figure], entries)
