"""Treatments of convolutional filters in a small network, trained alike."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

from whvi_paper import grid, measured, printed
from whvi_paper.blocks import Cell, Entry, Figure, Shown, Table, TextCell
from whvi_paper.images.filters import BASELINE, DATASET, LOW_RANK, TREATMENTS, answer, image_count
from whvi_paper.images.runs import alternatives, cpu_seconds, epochs_of
from whvi_paper.images.settings import cycles
from whvi_paper.images.training import LOOK_ROWS, train
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_cell, duration
from whvi_paper.store import Record

NAME = "filters"
TITLE = "Inference of convolutional filters"
SOURCE = "Figure on convolutional filters"
MODEL = "simple-cnn"
METRICS = ("error", "mnll", "ece")
PLANS: dict[str, dict[str, Any]] = {
    "recipe": {
        "dataset": DATASET, "epochs": 6, "samples": 16, "batch_size": 256, "treatments": tuple(TREATMENTS),
    },
    "quick": {
        "dataset": "synthetic-images", "epochs": 4, "samples": 4, "batch_size": 32,
        "treatments": (BASELINE, "whvi", LOW_RANK),
    },
    "smoke": {
        "dataset": "synthetic-images", "epochs": 1, "samples": 2, "batch_size": 100,
        "treatments": (BASELINE, "whvi"),
    },
}  # fmt: skip
TEXT = (
    "Two convolutions, each with batch normalisation without parameters, and one linear layer. The linear layer "
    "has WHVI, and the filters have different treatments, all with the same images ({dataset}; {images:,} of "
    "them test), schedule and epochs ({epochs}). {answer} {rates} A WHVI filter is torch's convolution with the "
    "dense filter of its draw, which tests check. For AlexNet with WHVI on filters and linear layers the paper "
    "states 189 thousand parameters; its structure has 106,964 here, and the paper does not explain the "
    "difference."
)
RATES = (
    "The highest learning rate was chosen by short runs that are not stored: 120 steps with batches of 32 "
    "training images of CIFAR-10, at 0.003, 0.01 and 0.03, by the bound over the last 12 steps. WHVI and "
    "low-rank filters were best at 0.03. MC dropout was also best at 0.03, but only by 0.02 nats per image, "
    "which was considered noise: it has 0.01. WHVI was better still at 0.1, which was not used, because such "
    "short runs favour high rates; it had one draw per batch there, and has one per example here. The other "
    "forms of WHVI have its rate."
)
CAPTION = "From {looked:,} test images of {dataset} and one function. {dotted}"


def jobs(profile: str) -> list[Job]:
    """One for each treatment."""
    plan = measured.plan(PLANS, profile)
    found = []
    for name in plan["treatments"]:
        method, _, rate = TREATMENTS[name]
        settings = {"batch_size": plan["batch_size"], "learning_rate": rate}
        inputs = {
            "task": "image classification",
            "dataset": plan["dataset"],
            "model": MODEL,
            "method": method,
            "epochs": plan["epochs"],
            "samples": plan["samples"],
            "shifts": False,
            "configuration": {**settings, "schedule": "one-cycle", "precision": "auto"},
            "seed": 0,
        }
        found.append(Job(NAME, f"{method} {MODEL}", (inputs,), train, cost=2.0 * sum(cycles(plan["epochs"]))))
    return found


def show(records: Sequence[Record]) -> Shown:
    """The answer, the learning curves, and a table."""
    done = {record["inputs"]["method"]: {**record, "cpu_seconds": cpu_seconds(record)} for record in records}
    runs = {name: done[one.method] for name, one in TREATMENTS.items() if one.method in done}
    facts = {
        "dataset": alternatives(record["inputs"]["dataset"] for record in runs.values()),
        "epochs": alternatives(map(epochs_of, runs.values())),
    }
    images = min(map(image_count, runs.values()))
    text = TEXT.format(**facts, images=images, answer=answer(runs), rates=RATES)
    dotted = "Dotted: where the paper's treatments ended." if facts["dataset"] == DATASET else ""
    caption = CAPTION.format(looked=min(LOOK_ROWS, images), dataset=facts["dataset"], dotted=dotted).strip()
    numbers = entries(runs)
    words = "Test error and MNLL against epochs, a line for each treatment of the filters; the table has the ends."
    drawing = Figure("Learning curves", draw(runs), caption, words)
    cells = [Cell(name, DATASET, MODEL, 0, 0, metric) for name in printed.FILTERS for metric in ("error", "mnll")]
    return Shown(NAME, TITLE, SOURCE, text, (drawing, table(runs, numbers)), numbers, printed=cells)


def entries(runs: Mapping[str, Record]) -> list[Entry]:
    """Our numbers, beside the paper's where it has the same data. The method is that of the filters."""
    found = []
    for name, record in runs.items():
        dataset = record["inputs"]["dataset"]
        paper = dict(zip(METRICS, printed.FILTERS.get(name, ()), strict=False)) if dataset == DATASET else {}
        for metric in METRICS:
            place = Entry(NAME, name, dataset, MODEL, 0, 0, metric, nan, nan, 0, paper.get(metric))
            found.append(grid.filled(replace(place, paper_decimals=printed.FILTER_DECIMALS), [record]))
    return found


def table(runs: Mapping[str, Record], numbers: Sequence[Entry]) -> Table:
    """A row for each treatment."""
    fields = {(entry.method, entry.metric): comparison_cell(entry) for entry in numbers}
    rows = [
        [
            TextCell(TREATMENTS[name].label),
            *(fields[name, metric] for metric in METRICS),
            TextCell(f"{record['results']['parameters']:,}"),
            TextCell(f"{record['inputs']['configuration']['learning_rate']:g}"),
            TextCell(duration(record["cpu_seconds"])),
        ]
        for name, record in runs.items()
    ]
    head = ("filters", "test error", "test MNLL", "ECE", "parameters", "rate", "CPU time")
    return Table(TITLE, head, rows, "In each field: ours, the paper's, and the difference. The paper prints no ECE.")


def draw(runs: Mapping[str, Record]) -> str:
    """Error and MNLL against epochs; the paper's last values as dotted lines."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(9, 3.6), layout="constrained")
    for place, (axis, metric) in enumerate(zip(canvas.subplots(1, 2), ("error", "MNLL"), strict=True)):
        for name, record in runs.items():
            colour = f"C{list(TREATMENTS).index(name)}"
            points = [(epoch, values[place]) for epoch, *values in record["results"].get("curve", ())]
            axis.plot(*zip(*points, strict=True) if points else ((), ()), "o-", markersize=3, color=colour,
                      label=TREATMENTS[name].label)  # fmt: skip
            if name in printed.FILTERS and record["inputs"]["dataset"] == DATASET:
                axis.axhline(printed.FILTERS[name][place], color=colour, linestyle=":", linewidth=1)
        axis.set(xlabel="epochs", ylabel=f"test {metric}")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure_svg(canvas)
