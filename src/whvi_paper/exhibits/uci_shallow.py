"""The supplement's regression with one hidden layer, as Hernandez-Lobato and Adams (2015) set it up."""

from collections.abc import Sequence

from whvi_paper import grid, printed, recipe
from whvi_paper.blocks import Shown
from whvi_paper.exhibits.uci_regression import METHODS, regression
from whvi_paper.jobs import Job
from whvi_paper.store import Record

NAME = "uci-shallow"
TITLE = "Regression on UCI data, one hidden layer"
SOURCE = "Supplement, regression on shallow models"
TEXT = (
    "One hidden layer of 50 units, 100 for protein; all other settings are those of two layers of 128, with "
    "three exceptions. WHVI infers its scales like g: with one layer there are too few g to prevent overfitting. "
    "MCD takes all 50,500 steps, and NNG takes 40,400 at a tenth of its rate."
)
SHAPES = [(1, width) for width in dict.fromkeys(map(printed.shallow_width, printed.REGRESSION_DATASETS))]


def jobs(profile: str) -> list[Job]:
    """Eight datasets, four methods."""
    return grid.jobs(
        NAME,
        printed.REGRESSION_DATASETS,
        METHODS,
        lambda dataset: [(1, printed.shallow_width(dataset))],
        profile,
        how=recipe.SHALLOW,
    )


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's."""
    return regression(Shown(NAME, TITLE, SOURCE, TEXT, ()), records, METHODS, SHAPES)
