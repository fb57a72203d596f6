"""What a training step of a Gaussian process costs against the number of features or inducing points: its exponents."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from whvi.inference import SVI
from whvi.likelihoods import Gaussian
from whvi.models import RandomFeatureGP
from whvi_paper import cost, measured
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.exhibits.complexity import MEASURES
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.processes import inducing
from whvi_paper.processes.optimisation import Optimisation
from whvi_paper.processes.shown import COLOURS, LABELS
from whvi_paper.store import Record

NAME = "process-cost"
TITLE = "Cost of Gaussian processes, measured"
SOURCE = "Supplement, complexity table for Gaussian processes"
ROWS, INPUTS = 64, 8
POSTERIORS = {"whvi": "whvi", "vi": "mean-field"}
PAPER = {
    "whvi": ("F N + √N", "F N + log N"),
    "vi": ("F N + N", "F N + N"),
}
"""The paper's space and time for F inputs, N features and one output."""
PLANS = {"recipe": ((8, 10, 12, 14, 16), 7), "quick": ((8, 10, 12), 5), "smoke": ((4, 6), 2)}
"""Binary logarithms of N, the square of a power of two each; rounds."""
POINTS = {"recipe": ((5, 6, 7, 8, 9, 10), 7), "quick": ((5, 6, 7), 5), "smoke": ((2, 3), 2)}
"""Binary logarithms of the number of inducing points M; rounds."""
TEXT = (
    "A step is one of stochastic variational inference on {rows} rows of {inputs} inputs, with Adam; float32, "
    "medians of interleaved runs in one process. Numbers are the parameters of the weights; the random "
    "projection, which is not learned, has F N / 2 numbers more, equal for both. Memory is all stored tensors "
    "plus the peak of a step, by torch's profiler. Exponents are slopes of the logarithms over the {largest} "
    "largest N. The features themselves cost F N, so both methods are linear in N in time and memory, but not in "
    "parameters: √N for WHVI. The paper's log N for the product with a structured vector does not include "
    "reading the N features. {where}"
)
POINTS_TEXT = (
    "Inducing points are gpytorch's, in float64, with a diagonal covariance: a step of the same number of rows. "
    "Their parameters grow like M, as the paper's table says of space, but the kernel matrix of the points is M²."
)


def jobs(profile: str) -> list[Job]:
    """One process measures all, so that ratios can be trusted."""
    logarithms, rounds = measured.plan(PLANS, profile)
    common = {"rows": ROWS, "inputs": INPUTS, "methods": list(POSTERIORS), "rounds": rounds}
    inputs = tuple({"features": 1 << k, **common} for k in logarithms)
    found = [Job(NAME, "processes of all sizes", inputs, measure, cost=3.0)]
    logarithms, rounds = measured.plan(POINTS, profile)
    common = {"rows": ROWS, "inputs": INPUTS, "method": "svgp", "rounds": rounds}
    inputs = tuple({"points": 1 << k, **common} for k in logarithms)
    return [*found, Job(NAME, "inducing points", inputs, measure_points, cost=3.0)]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds, numbers and bytes of each method's step."""
    results: list[Results] = []
    for one in inputs:
        models = {
            method: RandomFeatureGP(one["inputs"], one["features"], posterior=POSTERIORS[method])
            for method in one["methods"]
        }
        steps = {method: training_step(model, one["rows"], one["inputs"]) for method, model in models.items()}
        metrics = measured.timed(steps, one["rounds"])
        metrics["numbers"] = {
            method: sum(parameter.numel() for parameter in model.weights.parameters())
            for method, model in models.items()
        }
        metrics["bytes"] = {
            method: sum(tensor.nbytes for tensor in cost.held(model)) + cost.peak(steps[method], folder / "trace.json")
            for method, model in models.items()
        }
        results.append({"metrics": metrics})
        report(len(results) / len(inputs))
    return results


def measure_points(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds, numbers and bytes of a step with inducing points."""
    results: list[Results] = []
    for one in inputs:
        step, tensors = points_step(one["points"], one["rows"], one["inputs"])
        metrics = measured.timed({"svgp": step}, one["rounds"])
        metrics["numbers"] = {"svgp": inducing.variational_parameters(one["points"], one["inputs"], "diagonal")}
        held = sum(tensor.nbytes for tensor in tensors)
        metrics["bytes"] = {"svgp": held + cost.peak(step, folder / "trace.json")}
        results.append({"metrics": metrics})
        report(len(results) / len(inputs))
    return results


def points_step(points: int, rows: int, inputs: int) -> tuple[Callable[[], object], list[Tensor]]:
    """A step of Adam on the bound of a process whose points are random, and what it holds."""
    x, y = torch.rand(max(points, rows), inputs), torch.randn(rows).double()
    settings = Optimisation(1, 1e-3)
    process, likelihood, objective = inducing.sparse_model(x, points, "diagonal", settings)
    parameters = [*process.parameters(), *likelihood.parameters()]
    optimizer, batch = torch.optim.Adam(parameters, settings.learning_rate), x[:rows].double()

    def run() -> None:
        optimizer.zero_grad()
        (-objective(process(batch), y)).backward()
        optimizer.step()

    return run, [*parameters, *process.buffers()]


def training_step(model: RandomFeatureGP, rows: int, inputs: int) -> Callable[[], object]:
    """A step of SVI on random data."""
    x, y = torch.rand(rows, inputs), torch.randn(rows, 1)
    run = SVI().init(model, Gaussian(), rows)
    return lambda: run.update(x, y, 0)


def show(records: Sequence[Record]) -> Shown:
    """Random features against their number, then inducing points against theirs."""
    return measured.in_two_parts(records, "points", show_features, show_points)


def show_points(records: Sequence[Record]) -> Shown:
    """Exponents, and what was measured at each number of points."""
    lines = {key: measured.points(records, "points", key)["svgp"] for key in MEASURES}
    fitted = [f"{measured.exponent(lines[key]):.2f}" for key in MEASURES]
    head = ("method", "paper: space", "parameters ~ M^", "memory ~ M^", "paper: time", "time ~ M^")
    row = measured.cells(LABELS["svgp"], "O(M)", *fitted[:2], "O(M³)", fitted[2])
    rows = [
        measured.cells(
            str(size),
            *(f"{dict(lines[key])[size] * scale:,.{decimals}f}" for key, (_, scale, decimals) in MEASURES.items()),
        )
        for size, _ in lines["seconds"]
    ]
    tables = [
        Table("Exponents of inducing points", head, [row]),
        Table("Steps with inducing points", ("M", *(name for name, *_ in MEASURES.values())), rows),
    ]
    numbers = measured.entries(NAME, records, lambda one: (f"{one['rows']} rows, inducing points", one["points"]))
    return Shown(NAME, TITLE, SOURCE, f"{POINTS_TEXT} {measured.where(records)}", tables, numbers)


def show_features(records: Sequence[Record]) -> Shown:
    """A panel for each measure, and the exponents beside the paper's table."""
    lines = {key: measured.points(records, "features", key) for key in MEASURES}
    text = TEXT.format(rows=ROWS, inputs=INPUTS, largest=measured.LARGEST, where=measured.where(records))
    words = "Parameters, memory and time against the number of features; the table has exponents and values."
    drawing = Figure("Cost against N", draw(lines), alternative=words)
    numbers = measured.entries(NAME, records, lambda one: (f"{one['rows']} rows", one["features"]))
    return Shown(NAME, TITLE, SOURCE, text, (drawing, exponents(lines)), numbers)


def exponents(lines: dict[str, measured.Points]) -> Table:
    """The p of N^p beside the paper's table, and what was measured at the largest N."""
    rows = []
    for method in filter(lines["seconds"].__contains__, PAPER):
        fitted = [f"{measured.exponent(lines[key][method]):.2f}" for key in MEASURES]
        last = [f"{lines[key][method][-1][1] * scale:,.{decimals}f}" for key, (_, scale, decimals) in MEASURES.items()]
        space, time = (f"O({order})" for order in PAPER[method])
        rows.append(measured.cells(LABELS[method], space, *fitted[:2], time, fitted[2], *last))
    size = lines["seconds"][next(iter(lines["seconds"]))][-1][0]
    head = ("method", "paper: space", "parameters ~ N^", "memory ~ N^", "paper: time", "time ~ N^")
    return Table("Exponents", (*head, *(f"{name} at N = {size:,}" for name, *_ in MEASURES.values())), rows)


def draw(lines: dict[str, measured.Points]) -> str:
    """One panel for each measure."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(10, 3.4), layout="constrained")
    axes = canvas.subplots(1, len(MEASURES))
    for axis, (key, (label, scale, _)) in zip(axes, MEASURES.items(), strict=True):
        scaled = {method: [(size, value * scale) for size, value in line] for method, line in lines[key].items()}
        measured.draw_lines(axis, scaled, LABELS, COLOURS)
        axis.set(xlabel="features N", title=label)
    axes[0].legend(fontsize=8)
    return figure_svg(canvas)
