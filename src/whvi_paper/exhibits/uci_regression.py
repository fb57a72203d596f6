"""Table 3: regression on eight UCI datasets with two hidden layers of 128 units, four methods."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from whvi_paper import grid, printed
from whvi_paper.blocks import Entry, Shown
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table, label
from whvi_paper.store import Record

NAME = "uci-regression"
TITLE = "Regression on UCI data, 2 x 128"
SOURCE = "Table 3"
TEXT = (
    "Two hidden layers of 128 units with ReLU, 90 % of the rows to train and 10 % to test, 8 splits, 64 samples "
    "of a prediction. WHVI takes the paper's 50,500 steps, and its KL weight rises over the first fifth of them; "
    "rivals take fewer steps, over which their rates fall to zero: MCD and MFG 20,200, NNG 10,100. Errors and "
    "densities are on the scale of the data."
)
AUTHORS_TEXT = (
    "The metrics above are those of the predictive distribution: RMSE of its mean, and -log E[p(y | f)]. The authors' "
    "public code averages over functions last: RMSE over all functions, and E[-log p(y | f)]; neither can be lower."
)
COVERAGE_TEXT = "The paper has no such table. Calibrated intervals contain 0.90."
METHODS = ("whvi", "mcd", "mfg", "nng")
METRICS = ("rmse", "mnll")
COVERAGE = "coverage_90"
AUTHORS_METRICS = ("rmse_of_samples", "expected_nll")


def jobs(profile: str) -> list[Job]:
    """Eight datasets, four methods."""
    return grid.jobs(NAME, printed.REGRESSION_DATASETS, METHODS, [(2, 128)], profile)


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's."""
    return regression(Shown(NAME, TITLE, SOURCE, TEXT, ()), records, METHODS, [(2, 128)])


def regression(
    shown: Shown,
    records: Sequence[Record],
    methods: Sequence[str],
    shapes: Sequence[grid.Shape],
    paper: grid.Printed = printed.regression,
) -> Shown:
    """An exhibit with its numbers: the comparison, both metrics as the authors' code has them, and the coverage."""
    entries = grid.entries(shown.name, records, paper, (*METRICS, COVERAGE), methods)
    theirs = grid.entries(shown.name, records, paper, AUTHORS_METRICS, methods)
    tables = [
        comparison_table(entries, shown.title, METRICS),
        comparison_table(theirs, f"{shown.title}: as the authors' code measures", AUTHORS_METRICS, AUTHORS_TEXT),
        comparison_table(entries, f"{shown.title}: share of targets in 90 % intervals", [COVERAGE], COVERAGE_TEXT),
    ]
    cells = grid.printed_cells(printed.regression, printed.REGRESSION_DATASETS, methods, METRICS, shapes)
    text = f"{shown.text} {ahead(entries)}".strip()
    return replace(shown, text=text, blocks=tables, entries=entries, authors=theirs, printed=cells)


def ahead(entries: Sequence[Entry]) -> str:
    """Whose numbers are the lowest here, over the networks that all methods were run on; "" for one method."""
    told = []
    methods = {entry.method for entry in entries if entry.n}
    for metric in METRICS:
        groups: dict[tuple[str, int, int], list[Entry]] = {}
        for entry in entries:
            if entry.metric == metric and entry.n:
                groups.setdefault((entry.dataset, entry.depth, entry.width), []).append(entry)
        complete = [group for group in groups.values() if len(group) == len(methods)]
        lowest = Counter(label(min(group, key=lambda entry: entry.mean).method) for group in complete)
        if len(methods) > 1 and complete:
            counts = ", ".join(f"{name} {count}" for name, count in lowest.most_common())
            told.append(f"the lowest {label(metric)} of {len(complete)} is that of {counts}")
    return f"Among ours, where all methods were run, {'; '.join(told)}." if told else ""
