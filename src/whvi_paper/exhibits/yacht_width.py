"""Figure: test MNLL against the number of hidden units on yacht. Its records are those of ``uci-widths``."""

from collections.abc import Sequence

from whvi.page import figure_svg
from whvi_paper import grid, printed
from whvi_paper.blocks import Figure, Shown
from whvi_paper.curves import draw_sizes
from whvi_paper.exhibits import uci_widths
from whvi_paper.exhibits.uci_regression import METHODS
from whvi_paper.jobs import Job
from whvi_paper.report.compare import label
from whvi_paper.store import Record

NAME = "yacht-width"
TITLE = "Density of predictions against the width on yacht"
SOURCE = "Figure 5"
TEXT = "Two hidden layers of 64 to 512 units. Dashed: the paper's numbers, corrected."


def jobs(profile: str) -> list[Job]:
    """Those of all widths, on yacht."""
    return [job for job in uci_widths.jobs(profile) if job.inputs[0]["dataset"] == "yacht"]


def show(records: Sequence[Record]) -> Shown:
    """One line for each method."""
    from matplotlib.figure import Figure as Canvas

    entries = grid.entries(NAME, records, printed.regression, ("mnll",), METHODS)
    run = [entry for entry in entries if entry.n]
    methods = {entry.method for entry in run}
    drawn = [entry for entry in entries if entry.method in methods]  # the paper has numbers where we have none
    canvas = Canvas(figsize=(6, 3.6), layout="constrained")
    draw_sizes(canvas.subplots(), drawn, lambda entry: entry.method, "yacht", paper=True)
    words = "; ".join(f"{label(e.method)} {e.width}: {e.mean:.2f}" for e in run)
    shapes = [(2, width) for width in printed.WIDTHS]
    cells = grid.printed_cells(printed.regression, ["yacht"], METHODS, ["mnll"], shapes)
    figure = Figure(TITLE, figure_svg(canvas), alternative=words)
    return Shown(NAME, TITLE, SOURCE, TEXT, [figure], entries, printed=cells)
