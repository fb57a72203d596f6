"""Time of a prediction with 64 samples against the width of the network, for each method."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import whvi
from whvi.likelihoods import Gaussian
from whvi_paper import measured
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.networks import network
from whvi_paper.store import Record

NAME = "inference-time"
TITLE = "Time of a prediction against the width"
SOURCE = "Figure on inference time, computational efficiency"
METHODS = ("whvi", "mfg", "mcd", "nng")
ROWS, FEATURES, SAMPLES, DEPTH = 128, 8, 64, 2
PLANS = {"recipe": ((64, 128, 256, 512), 11), "quick": ((64, 128, 256), 5), "smoke": ((16, 32), 2)}
"""Widths, rounds."""


def jobs(profile: str) -> list[Job]:
    """One process measures all, so that ratios can be trusted."""
    widths, rounds = measured.plan(PLANS, profile)
    common = {"rows": ROWS, "features": FEATURES, "samples": SAMPLES, "depth": DEPTH, "methods": list(METHODS)}
    inputs = tuple({"width": width, "rounds": rounds, **common} for width in widths)
    return [Job(NAME, "prediction of all methods", inputs, measure, cost=10.0)]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds of each method's prediction: means and variances of all rows, from so many functions."""
    results: list[Results] = []
    for one in inputs:
        x = torch.randn(one["rows"], one["features"])
        contenders = {method: prediction(method, x, one) for method in one["methods"]}
        results.append({"metrics": measured.timed(contenders, one["rounds"])})
        report(len(results) / len(inputs))
    return results


def prediction(method: str, x: torch.Tensor, setting: Inputs) -> Callable[[], object]:
    """A prediction of x by a network that is not trained: its time does not depend on that."""
    model = network(method, x.shape[1], 1, setting["depth"], setting["width"]).eval()
    likelihood = Gaussian()
    return lambda: whvi.predict(model, x, setting["samples"], likelihood=likelihood).variance


def show(records: Sequence[Record]) -> Shown:
    """A line for each method, and how much longer the others take than WHVI."""
    lines = measured.points(records, "width", "seconds")
    width, ours = lines["whvi"][-1]
    times = [f"{measured.LABELS[name]} {line[-1][1] / ours:.1f}" for name, line in lines.items() if name != "whvi"]
    text = (
        f"A batch of {ROWS} rows, {SAMPLES} functions drawn, {DEPTH} hidden layers; float32, medians of interleaved "
        f"runs in one process. Each function is one draw of all weights, used for all rows. Time at width {width}, "
        f"relative to WHVI: {', '.join(times)}. The paper measured on a GPU, and speaks of a poor performance of NNG, "
        f"whose distribution is the matrix Gaussian. Here a draw of it meets the rows factor by factor, which is "
        f"quadratic in the width, where these are fewer than two thirds of it; for more it is a product of full "
        f"matrices: cubic. {measured.where(records)}"
    )
    numbers = measured.entries(NAME, records, lambda one: (f"{one['rows']} rows", one["width"]))
    words = "Time of a prediction against the width, a line for each method; the table has the numbers."
    drawing = Figure("Time against width", draw(lines), alternative=words)
    return Shown(NAME, TITLE, SOURCE, text, (drawing, table(lines)), numbers)


def table(lines: measured.Points) -> Table:
    """Milliseconds of each method at each width."""
    values = {name: dict(line) for name, line in lines.items()}
    rows = [
        measured.cells(
            str(width), *(f"{values[name][width] * 1e3:.3g}" if width in values[name] else "-" for name in values)
        )
        for width in sorted({width for line in values.values() for width in line})
    ]
    return Table("Milliseconds for a batch", ("width", *(measured.LABELS[name] for name in values)), rows)


def draw(lines: measured.Points) -> str:
    """Milliseconds against width."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(5.5, 3.6), layout="constrained")
    axis = canvas.subplots()
    scaled = {name: [(width, seconds * 1e3) for width, seconds in line] for name, line in lines.items()}
    measured.draw_lines(axis, scaled, measured.LABELS, measured.COLOURS)
    axis.set(xlabel="hidden units", ylabel="milliseconds")
    axis.legend(fontsize=8)
    return figure_svg(canvas)
