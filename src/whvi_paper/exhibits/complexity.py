"""What a D x D layer costs against D: the numbers it holds, memory and time of a training step, and their exponents."""

from collections.abc import Sequence
from math import log2
from pathlib import Path

from whvi_paper import cost, measured
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.networks import METHODS
from whvi_paper.store import Record

NAME = "complexity"
TITLE = "Complexity of approaches to variational inference, measured"
SOURCE = "Table 1"
BATCH = 64
PAPER = {"mfg": ("D²", "D²"), "nng": ("D²", "D² + M³"), "tensor": ("K R²", "R²"), "whvi": ("D", "D log D")}
"""The paper's space and time of each method."""
LIGHT = ["tensor", "whvi"]
"""Methods that hold no full matrix: they are measured to a larger D."""
PLANS: dict[str, tuple[Sequence[int], Sequence[int], int]] = {
    "recipe": (range(6, 12), range(12, 16), 7),
    "quick": (range(6, 11), range(11, 14), 5),
    "smoke": ((4, 5), (6,), 2),
}
"""Binary logarithms of D for all methods, and for light ones alone; rounds."""
MEASURES = {"numbers": ("numbers", 1.0, 0), "bytes": ("memory, MB", 1e-6, 2), "seconds": ("time, ms", 1e3, 2)}
"""Metric: what it is called, the factor of its unit, and decimals in a table."""
TEXT = (
    "A step is a forward pass of {batch} rows with its noise, the KL divergence, and the backward pass; float32, "
    "medians of interleaved runs in one process. Numbers are parameters and buffers. Memory is these plus the "
    "peak of a step (with gradients), by torch's profiler. Exponents are slopes of the logarithms over the "
    "{largest} largest D of each method; for those of WHVI, D log D itself has {loglinear:.2f}. The matrix "
    "Gaussian draws one weight for all rows, a product of three full matrices: this is its cubic part, with D in "
    "place of the paper's M pseudo-data; the update of its covariance is not included. The tensor factorisation "
    "has R = log2 D and K = D / R². {where}"
)


def jobs(profile: str) -> list[Job]:
    """One process measures all, so that ratios can be trusted."""
    common, more, rounds = measured.plan(PLANS, profile)
    sizes = [(1 << k, list(PAPER)) for k in common] + [(1 << k, LIGHT) for k in more]
    inputs = tuple({"batch": BATCH, "size": size, "methods": methods, "rounds": rounds} for size, methods in sizes)
    return [Job(NAME, "layers of all methods", inputs, measure, cost=5.0)]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds, numbers and bytes of each method's layer."""
    results: list[Results] = []
    for one in inputs:
        layers = {method: METHODS[method][0](one["size"], one["size"]) for method in one["methods"]}
        steps = {method: cost.training_step(layer, one["batch"], one["size"]) for method, layer in layers.items()}
        metrics = measured.timed(steps, one["rounds"])
        held = {method: cost.held(layer) for method, layer in layers.items()}
        metrics["numbers"] = {method: sum(tensor.numel() for tensor in tensors) for method, tensors in held.items()}
        metrics["bytes"] = {
            method: sum(tensor.nbytes for tensor in tensors) + cost.peak(steps[method], folder / "trace.json")
            for method, tensors in held.items()
        }
        results.append({"metrics": metrics})
        report(len(results) / len(inputs))
    return results


def show(records: Sequence[Record]) -> Shown:
    """A panel for each measure, the exponents beside the paper's table, and the numbers at the largest common D."""
    lines = {key: measured.points(records, "size", key) for key in MEASURES}
    loglinear = measured.exponent([(size, size * log2(size)) for size, _ in lines["seconds"]["whvi"]])
    text = TEXT.format(batch=BATCH, largest=measured.LARGEST, loglinear=loglinear, where=measured.where(records))
    words = "Numbers, memory and time against D, a line for each method; the tables have exponents and values."
    drawing = Figure("Cost against D", draw(lines), alternative=words)
    numbers = measured.entries(NAME, records, lambda one: (f"{one['batch']} rows", one["size"]))
    return Shown(NAME, TITLE, SOURCE, text, (drawing, exponents(lines), values(lines)), numbers)


def exponents(lines: dict[str, measured.Points]) -> Table:
    """The p of D^p, beside the paper's table."""
    rows = []
    for method in filter(lines["seconds"].__contains__, PAPER):
        numbers, memory, time = (f"{measured.exponent(lines[key][method]):.2f}" for key in MEASURES)
        paper = [f"O({order})" for order in PAPER[method]]
        rows.append(measured.cells(measured.LABELS[method], paper[0], numbers, memory, paper[1], time))
    head = ("method", "paper: space", "numbers ~ D^", "memory ~ D^", "paper: time", "time ~ D^")
    return Table("Exponents", head, rows)


def values(lines: dict[str, measured.Points]) -> Table:
    """What was measured at the largest D that all methods have."""
    methods = [method for method in PAPER if method in lines["seconds"]]
    size = max(set.intersection(*({size for size, _ in lines["seconds"][method]} for method in methods)), default=0)
    rows = []
    for method in methods if size else ():
        found = (
            f"{dict(lines[key][method])[size] * scale:,.{decimals}f}" for key, (_, scale, decimals) in MEASURES.items()
        )
        rows.append(measured.cells(measured.LABELS[method], *found))
    return Table(f"At D = {size}", ("method", *(name for name, *_ in MEASURES.values())), rows)


def draw(lines: dict[str, measured.Points]) -> str:
    """One panel for each measure."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(10, 3.4), layout="constrained")
    axes = canvas.subplots(1, len(MEASURES))
    for axis, (key, (label, scale, _)) in zip(axes, MEASURES.items(), strict=True):
        scaled = {method: [(size, value * scale) for size, value in line] for method, line in lines[key].items()}
        measured.draw_lines(axis, scaled, measured.LABELS, measured.COLOURS)
        axis.set(xlabel="D", title=label)
    axes[0].legend(fontsize=8)
    return figure_svg(canvas)
