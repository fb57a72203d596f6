"""The supplement's regression with one hidden layer, as Hernandez-Lobato and Adams (2015) set it up."""

from collections.abc import Sequence

from whvi_paper import grid, printed
from whvi_paper.blocks import Shown
from whvi_paper.exhibits.uci_regression import METHODS, METRICS, tables
from whvi_paper.jobs import Job
from whvi_paper.store import Record

NAME = "uci-shallow"
TITLE = "Regression on UCI data, one hidden layer"
SOURCE = "Supplement, regression on shallow models"
TEXT = (
    "One hidden layer of 50 units, 100 for protein; all else as for two layers of 128, but that the KL of WHVI has its "
    "whole weight from the first step."
)


def jobs(profile: str) -> list[Job]:
    """Eight datasets, four methods."""
    return grid.jobs(
        NAME, printed.REGRESSION_DATASETS, METHODS, lambda dataset: [(1, printed.shallow_width(dataset))], profile
    )


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's."""
    entries = grid.entries(NAME, records, printed.regression, METRICS, METHODS)
    return Shown(NAME, TITLE, SOURCE, TEXT, tables(TITLE, records, entries), entries)
