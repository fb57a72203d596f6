"""Figure: WHVI against a tensor factorisation of the weights."""

from collections.abc import Sequence

from whvi_paper.blocks import Block, Entry, Shown
from whvi_paper.curves import early
from whvi_paper.exhibits.structures import METRICS, curves, entries, on_drive
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_table
from whvi_paper.store import Record

NAME = "tensor"
TITLE = "Against tensor factorisation"
SOURCE = "Figure 3"
TEXT = (
    "Two hidden layers; the number of units is in parentheses. “drive” is the paper's data with all steps, and "
    "“drive-2200” a subset of 2,200 rows with a fifth of them. The tensor layer has the same asymptotic cost: rank "
    "log2 D and D / (log2 D)^2 cores. The paper says that WHVI reaches better solutions, and faster."
)
METHODS, WIDTHS = ("whvi", "tensor"), (64, 128)


def jobs(profile: str) -> list[Job]:
    """Two methods, two widths."""
    return on_drive(NAME, METHODS, [(2, width) for width in WIDTHS], profile)


def line(record: Record) -> str:
    """Method and units."""
    inputs = record["inputs"]
    return f"{inputs['method']} ({inputs['width']})"


def show(records: Sequence[Record]) -> Shown:
    """Learning curves, and where they end."""
    numbers = entries(NAME, records, METHODS)
    figures = curves(records, line, "WHVI and tensor")
    blocks: list[Block] = [*figures, comparison_table(numbers, TITLE, METRICS)]
    numbers += early([entry for entry in numbers if entry.metric == "mnll"], records)
    return Shown(NAME, TITLE, SOURCE, f"{TEXT} {told(numbers)}", blocks, numbers)


def told(numbers: Sequence[Entry]) -> str:
    """Who ends ahead, for each dataset and width."""
    found = {(e.dataset, e.width, e.metric, e.method): e.mean for e in numbers if e.n}
    parts = []
    for dataset, width in dict.fromkeys((dataset, width) for dataset, width, *_ in found):
        pairs = [[found.get((dataset, width, metric, method)) for method in METHODS] for metric in ("error", "mnll")]
        if all(None not in pair for pair in pairs):
            ((error, other_error), (mnll, other_mnll)) = pairs
            parts.append(
                f"on {dataset} with {width} units WHVI has {error:.3f} and {mnll:.2f}, the tensor layer "
                f"{other_error:.3f} and {other_mnll:.2f}"
            )
    return f"Error and MNLL here: {'; '.join(parts)}." if parts else ""
