"""Table 2 and Figure 2: other structures of the weight, with scales that are optimised or have a posterior."""

from collections.abc import Sequence
from dataclasses import replace

from whvi.page import figure_svg
from whvi_paper import grid, printed
from whvi_paper.blocks import Cell, Entry, Figure, Shown
from whvi_paper.curves import draw_curves, learning_curves
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table, label
from whvi_paper.store import PUBLISHED, Record

NAME = "structures"
TITLE = "Structures of the weight matrix"
SOURCE = "Table 2 and Figure 2"
WHOLE, SUBSET = "drive", "drive-2200"
DATASETS = (WHOLE, SUBSET)
TEXT = (
    "Two hidden layers of 64 units. “drive” is the paper's data, Sensorless Drive (58,509 rows), with all the "
    "steps. “drive-2200” is a subset of 2,200 rows, with a fifth of the steps: it shows the order of the "
    "methods, and its numbers are not compared with the paper's. The permutation (P) and the grid of blocks of "
    "side 32 are ours."
)
METHODS = (
    "whvi", "mcd", "GH", "S_opt H G H", "S_var H G H", "S_opt H G H S_opt H", "S_var H G H S_var H",
    "S_var H G H S_var", "S_opt H G P H S_opt", "whvi-grid32",
)  # fmt: skip
METRICS = ("error", "mnll", "ece")
SHAPE = (2, 64)
STEPS = 10_100
"""On the subset, a fifth of the usual: there are few rows, and the curves are flat by then."""


def jobs(profile: str) -> list[Job]:
    """The paper's structures, WHVI with the permutation that it calls not critical, and the grid."""
    return on_drive(NAME, METHODS, [SHAPE], profile)


def on_drive(exhibit: str, methods: Sequence[str], shapes: Sequence[grid.Shape], profile: str) -> list[Job]:
    """Jobs on the complete data and on the subset; on the subset alone for a quick look."""
    found = grid.jobs(exhibit, [SUBSET], methods, shapes, profile, most_steps=STEPS, curve_every=500)
    if profile in PUBLISHED:
        found = grid.jobs(exhibit, [WHOLE], methods, shapes, profile, curve_every=2500) + found
    return found


def paper(method: str, dataset: str, metric: str, depth: int, width: int) -> printed.Pair | None:
    """What the paper prints, on the complete data; it has no spread."""
    values = dict(zip(METRICS, printed.STRUCTURES.get(method, ()), strict=False))
    fits = dataset == WHOLE and (depth, width) == SHAPE and metric in values
    return (values[metric], 0.0) if fits else None


def entries(exhibit: str, records: Sequence[Record], methods: Sequence[str]) -> list[Entry]:
    """Our numbers, beside the paper's as they are printed: three decimals, without a spread."""
    found = grid.entries(exhibit, records, paper, METRICS, methods)
    return [replace(entry, paper_std=None, paper_decimals=3) for entry in found]


def show(records: Sequence[Record]) -> Shown:
    """The table, the learning curves, and which structure is the best."""
    numbers = entries(NAME, records, METHODS)
    table = comparison_table(numbers, TITLE, METRICS, known())
    told = " ".join(best(numbers, dataset) for dataset in DATASETS if any(e.dataset == dataset for e in numbers))
    cells = [
        Cell(method, WHOLE, "mlp", *SHAPE, metric) for method in printed.STRUCTURES for metric in ("error", "mnll")
    ]
    figures = curves(records, lambda record: str(record["inputs"]["method"]), "each structure")
    return Shown(NAME, TITLE, SOURCE, f"{TEXT} {told}", [table, *figures], numbers, printed=cells)


def known() -> str:
    """The paper's numbers in words, which say what its order is."""
    told = "; ".join(f"{method} {error:.3f} / {mnll:.3f}" for method, (error, mnll) in printed.STRUCTURES.items())
    return f"The paper, on the complete data, error / MNLL: {told}."


def best(numbers: Sequence[Entry], dataset: str) -> str:
    """Which method is the best of those that were run on a dataset, and where WHVI stands; the paper has WHVI first."""
    told = []
    for metric in ("error", "mnll"):
        ranks = sorted((e for e in numbers if (e.dataset, e.metric) == (dataset, metric) and e.n), key=lambda e: e.mean)
        place = next((place for place, entry in enumerate(ranks, 1) if entry.method == "whvi"), None)
        if place is not None:
            first, ours = ranks[0], ranks[place - 1]
            ahead = "" if place == 1 else f", where WHVI has {ours.mean:.3f} (place {place} of {len(ranks)})"
            told.append(f"by {label(metric)} {label(first.method)} is the best ({first.mean:.3f}){ahead}")
    return f"On {dataset} {' and '.join(told)}; the paper has WHVI first in both." if told else ""


def curves(records: Sequence[Record], line: grid.Line, what: str) -> list[Figure]:
    """Learning curves, a figure for each dataset."""
    from matplotlib.figure import Figure as Canvas

    found = []
    for dataset in DATASETS:
        mine = [record for record in records if record["inputs"]["dataset"] == dataset]
        if mine:
            canvas = Canvas(figsize=(7, 4), layout="constrained")
            draw_curves(canvas.subplots(), learning_curves(mine, line), dataset)
            words = f"Test MNLL against steps for {what}, on {dataset}."
            found.append(Figure(f"Learning curves on {dataset}", figure_svg(canvas), alternative=words))
    return found
