"""Time of a prediction with 64 samples against the width of the network, for each method; box plots on test sets."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import whvi
from whvi.likelihoods import Gaussian
from whvi_paper import measured
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.data import load, split
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
DATASETS = ("boston", "concrete")
REPETITIONS = {"recipe": 100, "quick": 20}
"""On the test set of the first split; a smoke test does without data."""


def jobs(profile: str) -> list[Job]:
    """One process measures all methods, so that ratios can be trusted."""
    widths, rounds = measured.plan(PLANS, profile)
    common = {"samples": SAMPLES, "depth": DEPTH, "methods": list(METHODS)}
    inputs = tuple({"width": width, "rounds": rounds, "rows": ROWS, "features": FEATURES, **common} for width in widths)
    found = [Job(NAME, "prediction of all methods", inputs, measure, cost=10.0)]
    for dataset in DATASETS if profile in REPETITIONS else ():
        sets = {"dataset": dataset, "batch": ROWS, "repetitions": REPETITIONS[profile], **common}
        inputs = tuple({"width": width, **sets} for width in widths)
        found.append(Job(NAME, f"test set of {dataset}", inputs, measure_sets, cost=20.0))
    return found


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds of each method's prediction: means and variances of all rows, from so many functions."""
    results: list[Results] = []
    for one in inputs:
        x = torch.randn(one["rows"], one["features"])
        contenders = {method: prediction(method, x, one) for method in one["methods"]}
        results.append({"metrics": measured.timed(contenders, one["rounds"])})
        report(len(results) / len(inputs))
    return results


def measure_sets(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds of each repetition of each method's prediction of a test set, batch after batch."""
    results: list[Results] = []
    for one in inputs:
        x, _ = split(load(one["dataset"]), 0).test
        contenders = {method: prediction(method, x, one) for method in one["methods"]}
        results.append(measured.distributions(contenders, one["repetitions"]) | {"rows": len(x)})
        report(len(results) / len(inputs))
    return results


def prediction(method: str, x: torch.Tensor, setting: Inputs) -> Callable[[], object]:
    """A prediction of x by a network that is not trained: its time does not depend on that."""
    model = network(method, x.shape[1], 1, setting["depth"], setting["width"]).eval()
    likelihood, batches = Gaussian(), x.split(setting.get("batch", len(x)))
    return lambda: torch.cat(
        [whvi.predict(model, part, setting["samples"], likelihood=likelihood).variance for part in batches]
    )


def show(records: Sequence[Record]) -> Shown:
    """A line for each method, how much longer the others take than WHVI, and boxes on the test sets."""
    return measured.in_two_parts(records, "repetitions", show_batch, show_sets)


def show_sets(records: Sequence[Record]) -> Shown:
    """A panel of boxes for each test set."""
    boxes: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    for record in sorted(records, key=lambda record: (record["inputs"]["dataset"], record["inputs"]["width"])):
        one = record["inputs"]
        panel = boxes.setdefault(f"{one['dataset']}, {record['results']['rows']} rows", {})
        for name, times in record["results"]["times"].items():
            panel.setdefault(name, {})[one["width"]] = {k: v * 1e3 for k, v in measured.box(times).items()}
    one = records[0]["inputs"]
    text = (
        f"Boxes: the test sets of the first split, in batches of at most {one['batch']}, each prediction repeated "
        f"{one['repetitions']} times, methods in turn; a box has the quartiles, and its whiskers end at the 5 % and "
        f"the 95 % quantile. {measured.where(records)}"
    )
    words = "Time of predicting a test set, a box for each method and width, a panel for each dataset."
    numbers = measured.entries(NAME, records, lambda one: (f"test set of {one['dataset']}", one["width"]))
    return Shown(NAME, TITLE, SOURCE, text, [Figure("Time on test sets", draw_sets(boxes), alternative=words)], numbers)


def draw_sets(boxes: dict[str, dict[str, dict[int, dict[str, float]]]]) -> str:
    """Milliseconds against the width."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(4.8 * len(boxes), 3.6), layout="constrained")
    axes = canvas.subplots(1, len(boxes), squeeze=False)[0]
    for axis, (title, panel) in zip(axes, boxes.items(), strict=True):
        measured.draw_boxes(axis, panel, measured.LABELS, measured.COLOURS)
        axis.set(title=title, xlabel="hidden units", ylabel="milliseconds")
    axes[0].legend(fontsize=8)
    return figure_svg(canvas)


def show_batch(records: Sequence[Record]) -> Shown:
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
