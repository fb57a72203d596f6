"""The supplement's regression with two hidden layers of 64 to 512 units; records are those of ``uci-regression``."""

from collections.abc import Sequence

from whvi_paper import grid, printed
from whvi_paper.blocks import Shown
from whvi_paper.exhibits.uci_regression import METHODS, regression
from whvi_paper.exhibits.uci_regression import NAME as HOME
from whvi_paper.jobs import Job
from whvi_paper.store import PUBLISHED, Record

NAME = "uci-widths"
TITLE = "Regression on UCI data, two hidden layers of 64 to 512 units"
SOURCE = "Supplement, extended results"
TEXT = "As 2 x 128, with other widths."


def jobs(profile: str) -> list[Job]:
    """Eight datasets, four methods, four widths; two widths for a quick look."""
    widths = printed.WIDTHS if profile in PUBLISHED else printed.WIDTHS[:2]
    return grid.jobs(HOME, printed.REGRESSION_DATASETS, METHODS, [(2, width) for width in widths], profile)


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's."""
    return regression(Shown(NAME, TITLE, SOURCE, TEXT, ()), records, METHODS, [(2, width) for width in printed.WIDTHS])
