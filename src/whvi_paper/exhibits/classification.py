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
AUTHORS_METRICS = ("error", "expected_nll")
AUTHORS_TEXT = (
    "E[-log p(y | f)], which averages over functions last and cannot be lower than MNLL. The error is that of the mean "
    "probabilities in both."
)
SHAPES = [(depth, width) for depth in (2, 3) for width in printed.WIDTHS]
DATASETS = ("eeg", "magic", "letter", "drive-2200", "drive", "miniboo", "mocap")


def jobs(profile: str) -> list[Job]:
    """All datasets, two methods, two depths, four widths; the small networks and data at hand for a quick look."""
    whole = profile in PUBLISHED
    return grid.jobs(NAME, DATASETS if whole else DATASETS[:3], METHODS, SHAPES if whole else [(2, 64)], profile)


def show(records: Sequence[Record]) -> Shown:
    """Errors, densities and calibration beside the paper's."""
    entries = grid.entries(NAME, records, printed.classification, METRICS, METHODS)
    theirs = grid.entries(NAME, records, printed.classification, AUTHORS_METRICS, METHODS)
    tables = [
        comparison_table(entries, TITLE, METRICS),
        comparison_table(theirs, f"{TITLE}: as the authors' code measures", ["expected_nll"], AUTHORS_TEXT),
    ]
    cells = grid.printed_cells(printed.classification, printed.CLASSIFICATION_DATASETS, METHODS, METRICS, SHAPES)
    return Shown(NAME, TITLE, SOURCE, TEXT, tables, entries, authors=theirs, printed=cells)
