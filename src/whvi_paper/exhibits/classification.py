"""The supplement's classification with two and three hidden layers."""

from collections.abc import Sequence

from whvi_paper import grid, printed
from whvi_paper.blocks import Shown
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table
from whvi_paper.store import PUBLISHED, Record

NAME = "classification"
TITLE = "Classification on UCI data"
SOURCE = "Supplement, extended results"
TEXT = (
    "Two or three hidden layers of 64 to 512 units. Inputs are clipped at the 0.1 % and 99.9 % quantiles of the "
    "training rows before they are standardised, so that a few broken sensor readings do not set the scale."
)
METHODS = ("whvi", "mcd")
METRICS = ("error", "mnll", "ece")
DATASETS = ("eeg", "magic", "letter", "drive-2200", "drive", "miniboo", "mocap")


def jobs(profile: str) -> list[Job]:
    """All datasets, two methods, two depths, four widths; the small networks and data at hand for a quick look."""
    whole = profile in PUBLISHED
    shapes = [(depth, width) for depth in (2, 3) for width in printed.WIDTHS] if whole else [(2, 64)]
    return grid.jobs(NAME, DATASETS if whole else DATASETS[:3], METHODS, shapes, profile)


def show(records: Sequence[Record]) -> Shown:
    """Errors, densities and calibration beside the paper's."""
    entries = grid.entries(NAME, records, printed.classification, METRICS, METHODS)
    return Shown(NAME, TITLE, SOURCE, TEXT, [comparison_table(entries, TITLE, METRICS)], entries)
