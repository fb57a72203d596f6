"""Does the prior of g matter? Regression under other variances of g, and under a constant variance of W."""

from collections.abc import Sequence

from whvi_paper import grid, recipe
from whvi_paper.blocks import Shown
from whvi_paper.exhibits import uci_regression
from whvi_paper.exhibits.uci_regression import METRICS
from whvi_paper.jobs import Job
from whvi_paper.report.compare import label, method_table
from whvi_paper.store import Record

NAME = "priors"
TITLE = "Priors of g"
SOURCE = "Supplement, a claim without a table"
DATASETS = ("yacht", "boston", "concrete", "energy")
METHODS = {
    "whvi": "variance 1",
    "whvi-prior-1e-2": "variance 1e-2",
    "whvi-prior-1e-5": "variance 1e-5",
    "whvi-constant": "constant variance of W",
}
TEXT = (
    "Two hidden layers of 128 units. If S1 and S2 are free, the variance of the prior does not change the model: "
    "(c g, s / c) is the same weight. It changes the effective step size of Adam. With a prior of constant "
    "variance for W the scale of g follows S1 and S2. All other settings are those of the recipe."
)


def jobs(profile: str) -> list[Job]:
    """The table's WHVI, which is not computed again, and the other priors."""
    others = [method for method in METHODS if method != "whvi"]
    places = [(2, 128)], profile
    table = grid.jobs(uci_regression.NAME, DATASETS, ["whvi"], *places)
    return table + grid.jobs(NAME, DATASETS, others, *places, how=recipe.PRIORS)


def show(records: Sequence[Record]) -> Shown:
    """A table for each metric, with a column for each prior."""
    entries = grid.entries(NAME, records, lambda *_: None, METRICS, list(METHODS))
    tables = [
        method_table(label(metric), [entry for entry in entries if entry.metric == metric], METHODS, usual=8)
        for metric in METRICS
    ]
    return Shown(NAME, TITLE, SOURCE, TEXT, tables, entries)
