"""The effect of a sum of several structured matrices: WHVI with more terms, compared with other methods."""

from collections.abc import Sequence

from whvi_paper import grid, printed, recipe
from whvi_paper.blocks import Entry, Shown
from whvi_paper.data import DATASETS
from whvi_paper.exhibits import classification, uci_regression
from whvi_paper.jobs import Job
from whvi_paper.report.compare import duration, method_table
from whvi_paper.store import Record

NAME = "terms"
TITLE = "A sum of terms: WHVI with T = 1, 2, 4, 8"
SOURCE = "Our addition"
TEXT = (
    "Two hidden layers of 128 units; W is a sum of T structured matrices, each with its own g and scales, and T "
    "= 1 is the paper's. The grid has blocks of side 32 in rows and columns, each with its own g. Low rank has W "
    "= A B^T with Gaussian factors (Singular Bayesian Neural Networks, 2026), with a rank that gives about as "
    "many parameters as T = 4. All methods, including MC dropout, take 50,500 steps, except mean field with "
    "20,200. The KL weight rises over the first fifth of the steps for low rank and in regression, and for T > 1 "
    "and the grid over nine tenths in classification. For T > 1 and the grid q(g) starts ten times narrower and "
    "the learning rate is twice as high. These settings were chosen for T = 4, on held-out training rows; the "
    "warm-up in classification was chosen after test rows of T = 4 with a shorter one had been seen."
)
METHODS = {
    "whvi": "WHVI T = 1",
    "whvi-t2": "WHVI T = 2",
    "whvi-t4": "WHVI T = 4",
    "whvi-t8": "WHVI T = 8",
    "whvi-grid32": "WHVI grid of 32",
    "low-rank": "low rank",
    "mfg": "MFG",
    "mcd": "MCD",
}
OURS, RIVAL = "whvi-t4", "mcd"
SHARED = {
    uci_regression.NAME: (printed.REGRESSION_DATASETS, ("whvi", "mfg")),
    classification.NAME: (("eeg", "magic", "letter", "drive"), ("whvi",)),
}
"""Exhibits that have records of the same inputs, with datasets and methods of those."""
METRICS = {"regression": ("rmse", "mnll", "coverage_90"), "classification": ("error", "mnll", "ece")}
JUDGED = 2
"""Of the metrics of a task, the first."""
TABLES = {
    "RMSE, or share of rows in error": ("rmse", "error"),
    "MNLL": ("mnll",),
    "Share of targets in 90 % intervals": ("coverage_90",),
    "ECE": ("ece",),
}


def jobs(profile: str) -> list[Job]:
    """Twelve datasets, eight methods; what another exhibit has computed is not computed again."""
    found, shape = [], [(2, 128)]
    for home, (datasets, shared) in SHARED.items():
        own = [method for method in METHODS if method not in shared]
        found += grid.jobs(home, datasets, shared, shape, profile)
        found += grid.jobs(NAME, datasets, own, shape, profile, how=recipe.TERMS)
    return found


def show(records: Sequence[Record]) -> Shown:
    """A table for each metric, what it took, and how T = 4 stands to MC dropout."""
    entries = []
    for task, metrics in METRICS.items():
        mine = [record for record in records if record["inputs"]["task"] == task]
        entries += grid.entries(NAME, mine, lambda *_: None, metrics, list(METHODS))
    usual, once = max(entry.n for entry in entries), [entry for entry in entries if entry.metric == "mnll"]
    tables = [
        method_table(title, [entry for entry in entries if entry.metric in metrics], METHODS, usual)
        for title, metrics in TABLES.items()
    ]
    tables += [
        method_table("Parameters", once, METHODS, text=lambda entry: f"{entry.parameters:,}"),
        method_table("CPU time of all splits", once, METHODS, text=lambda entry: duration(entry.cpu_seconds or 0.0)),
    ]
    return Shown(NAME, TITLE, SOURCE, f"{TEXT} {standing(entries)}", [one for one in tables if one.rows], entries)


def standing(entries: Sequence[Entry]) -> str:
    """In how many numbers T = 4 is at or ahead of MC dropout, of those that both have, and at which size."""
    found = {(entry.dataset, entry.metric, entry.method): entry for entry in entries}
    counts, shares = [], []
    for task, metrics in METRICS.items():
        judged = [entry for entry in entries if entry.method == OURS and entry.metric in metrics[:JUDGED]]
        judged = [entry for entry in judged if DATASETS[entry.dataset].task == task]
        pairs = [(e, found[e.dataset, e.metric, RIVAL]) for e in judged if (e.dataset, e.metric, RIVAL) in found]
        counts.append(f"{sum(ours.mean <= rival.mean for ours, rival in pairs)} of {len(pairs)} numbers of {task}")
        shares += [(ours.parameters or 0) / (rival.parameters or 1) for ours, rival in pairs]
    if not shares:
        return f"{METHODS[OURS]} and {METHODS[RIVAL]} have no dataset in common yet."
    size = f"{min(shares):.0%} to {max(shares):.0%} of its parameters"
    return f"{METHODS[OURS]} is at or ahead of {METHODS[RIVAL]} in {' and '.join(counts)}, with {size}."
