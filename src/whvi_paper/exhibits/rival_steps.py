"""Would rivals gain by as many steps as WHVI has? Regression with 2 x 128 units, after fewer steps and after all."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from whvi_paper import grid, printed, recipe
from whvi_paper.blocks import Entry, Shown
from whvi_paper.exhibits import uci_regression
from whvi_paper.exhibits.uci_regression import METRICS
from whvi_paper.jobs import Job
from whvi_paper.report.compare import label, method_table
from whvi_paper.store import Record

NAME = "rival-steps"
TITLE = "Rivals with as many steps as WHVI"
SOURCE = "Our addition"
TEXT = (
    "In the table of two hidden layers of 128 units WHVI has 50,500 steps, MCD and MFG have 20,200 and NNG "
    "10,100. Here they have as many as WHVI, shown with their earlier results; the rate falls to zero over the "
    "steps of each run."
)
RIVALS = ("mcd", "mfg", "nng")


def jobs(profile: str) -> list[Job]:
    """All steps, after those of the table, which are not computed again."""
    places = printed.REGRESSION_DATASETS, RIVALS, [(2, 128)], profile
    return [*grid.jobs(uci_regression.NAME, *places), *grid.jobs(NAME, *places, how=recipe.EQUAL)]


def show(records: Sequence[Record]) -> Shown:
    """For each metric a column for each rival and number of steps, and how often more steps are better."""
    entries = list(numbers(records))
    methods = {entry.method: entry.method for entry in sorted(entries, key=lambda entry: entry.method)}
    tables = [
        method_table(label(metric), [entry for entry in entries if entry.metric == metric], methods, usual=8)
        for metric in METRICS
    ]
    return Shown(NAME, TITLE, SOURCE, f"{TEXT} {told(entries)}", tables, entries)


def numbers(records: Sequence[Record]) -> Iterator[Entry]:
    """Ours, without the paper's; the method is named with its steps."""
    for steps in sorted({record["inputs"]["steps"] for record in records}):
        mine = [record for record in records if record["inputs"]["steps"] == steps]
        for entry in grid.entries(NAME, mine, lambda *_: None, METRICS, RIVALS):
            yield replace(entry, method=f"{label(entry.method)}, {steps:,} steps")


def told(entries: Sequence[Entry]) -> str:
    """In how many numbers a rival is better with more steps, of those where both were run."""
    found = {(entry.method, entry.dataset, entry.metric): entry.mean for entry in entries}
    parts = []
    for rival in map(label, RIVALS):
        few, *more = sorted(
            {method for method, *_ in found if method.startswith(f"{rival},")}, key=lambda name: int(steps_of(name))
        ) or [""]
        pairs = [
            (found[few, dataset, metric], found[more[-1], dataset, metric])
            for dataset in printed.REGRESSION_DATASETS
            for metric in METRICS
            if more and {(few, dataset, metric), (more[-1], dataset, metric)} <= found.keys()
        ]
        if pairs:
            parts.append(f"{rival} in {sum(after < before for before, after in pairs)} of {len(pairs)} numbers")
    return f"More steps are better for {', '.join(parts)}." if parts else "Those with all steps are not computed yet."


def steps_of(method: str) -> str:
    """Of a method that is named with them.

    >>> steps_of("MCD, 20,200 steps")
    '20200'
    """
    return method.partition(", ")[2].removesuffix(" steps").replace(",", "")
