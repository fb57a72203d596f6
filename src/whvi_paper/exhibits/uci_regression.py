"""Table 3: regression on eight UCI datasets with two hidden layers of 128 units, four methods."""

from collections.abc import Sequence

from whvi_paper import grid, printed
from whvi_paper.blocks import Shown
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table
from whvi_paper.store import Record

NAME = "uci-regression"
TITLE = "Regression on UCI data, 2 x 128"
SOURCE = "Table 3"
TEXT = (
    "Two hidden layers of 128 units with ReLU, 90 % of the rows to train and 10 % to test, 8 splits, 64 functions to "
    "predict with. WHVI takes the paper's 50,500 steps; rivals take fewer, over which their rates fall to zero: MCD "
    "and MFG 20,200, NNG 10,100. Errors and densities are on the scale of the data."
)
METHODS = ("whvi", "mcd", "mfg", "nng")
METRICS = ("rmse", "mnll")


def jobs(profile: str) -> list[Job]:
    """Eight datasets, four methods."""
    return grid.jobs(NAME, printed.REGRESSION_DATASETS, METHODS, [(2, 128)], profile)


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's."""
    entries = grid.entries(NAME, records, printed.regression, METRICS)
    table = comparison_table(entries, TITLE, METRICS)
    return Shown(NAME, TITLE, SOURCE, TEXT, [table], entries)
