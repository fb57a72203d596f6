"""Bayesian convolutional networks on CIFAR-10: error, MNLL and calibration of each treatment."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whvi_paper import measured
from whvi_paper.blocks import Entry, Shown, Table, TextCell
from whvi_paper.images.runs import NETWORKS, Runs, by_network, entries, epochs_of, printed_cells, row_name, told
from whvi_paper.images.settings import CONFIGURATION, OF_NNG, cycles
from whvi_paper.images.training import train
from whvi_paper.jobs import Job
from whvi_paper.report.compare import comparison_cell, duration, label
from whvi_paper.report.standing import against_best, paper_best
from whvi_paper.store import Record

NAME = "convnets"
TITLE = "Bayesian convolutional networks on CIFAR-10"
SOURCE = "Table 4"
METRICS = {"error": "test error", "mnll": "test MNLL", "ece": "ECE"}
PLANS: dict[str, dict[str, Any]] = {
    "recipe": {
        "dataset": "cifar10",
        "samples": 16,
        "networks": {
            "vgg16": ([10, 6], ("whvi", "mcd", "mfg", "nng")),
            "alexnet": (60, ("whvi", "mcd", "nf-whvi", "nng")),
            "resnet18": ([8, 3], ("whvi", "mcd", "nf-whvi")),
        },
    },
    "quick": {
        "dataset": "cifar10",
        "samples": 4,
        "networks": {"simple-cnn": (1, ("whvi", "mcd")), "alexnet": (1, ("whvi",))},
    },
    "smoke": {
        "dataset": "synthetic-images",
        "samples": 2,
        "networks": {"simple-cnn": (1, ("whvi", "mcd"))},
        "configuration": {"batch_size": 32},
    },
}
"""Of each network the epochs, or those of each cycle, and the methods."""
SIDES = {"resnet18": [16, 32]}
"""Pixels of a line in each cycle, where images are shrunk."""
WITHOUT_SHIFTS = ("resnet18",)
"""Networks that are not shown images of another kind: a prediction of all test images takes as long as an epoch."""
MINUTES = {"alexnet": 1.5, "vgg16": 3.0, "resnet18": 8.0, "simple-cnn": 0.5}
"""Of an epoch, roughly."""


def jobs(profile: str) -> list[Job]:
    """One for each network and method."""
    plan = measured.plan(PLANS, profile)
    found = []
    for model, (epochs, methods) in plan["networks"].items():
        for method in methods:
            inputs = {
                "task": "image classification",
                "dataset": plan["dataset"],
                "model": model,
                "method": method,
                "epochs": epochs,
                **({"sides": SIDES[model]} if model in SIDES else {}),
                "samples": plan["samples"],
                **({"shifts": False} if model in WITHOUT_SHIFTS else {}),
                "configuration": CONFIGURATION | (OF_NNG if method == "nng" else {}) | plan.get("configuration", {}),
                "seed": 0,
            }
            found.append(Job(NAME, f"{method} {model}", (inputs,), train, cost=MINUTES[model] * sum(cycles(epochs))))
    return found


def show(records: Sequence[Record]) -> Shown:
    """The paper's table with our numbers, and WHVI beside the best of the paper."""
    runs = by_network(records)
    numbers = entries(NAME, runs, tuple(METRICS))
    blocks = [table(runs, numbers), *best_table(numbers)]
    return Shown(NAME, TITLE, SOURCE, told(runs), blocks, numbers, printed=printed_cells(METRICS))


def table(runs: Runs, numbers: Sequence[Entry]) -> Table:
    """A row for each network and method, as in the paper."""
    fields = {(entry.model, entry.method, entry.metric): comparison_cell(entry) for entry in numbers}
    rows = []
    for model, method in dict.fromkeys((entry.model, entry.method) for entry in numbers):
        cells = [fields.get((model, method, metric), TextCell("–")) for metric in METRICS]
        rows.append([TextCell(row_name(model, method)), *cells, *_cost(runs[model].get(method))])
    head = ["network, method", *METRICS.values(), "parameters", "epochs", "CPU time"]
    caption = "In each field: ours, the paper's, and the difference. Errors are shares. The paper prints no ECE."
    return Table(TITLE, head, rows, caption)


def _cost(record: Record | None) -> list[TextCell]:
    if record is None:
        return [TextCell("–", note="not run")] * 3
    texts = f"{record['results']['parameters']:,}", epochs_of(record), duration(record["cpu_seconds"])
    return [TextCell(text) for text in texts]


def best_table(numbers: Sequence[Entry]) -> list[Table]:
    """WHVI beside the paper's best method of each network; nothing where the paper has no numbers."""
    cells: dict[str, dict[str, TextCell]] = {}
    for entry in against_best(numbers):
        rivals = (one for one in numbers if (one.model, one.metric) == (entry.model, entry.metric))
        best, cell = paper_best(rivals), comparison_cell(entry)
        name = label(best.method) if best else ""
        cells.setdefault(entry.model, {})[entry.metric] = replace(cell, text=f"{cell.text}\n{name}")
    metrics = [metric for metric in METRICS if any(metric in row for row in cells.values())]
    rows = [
        [TextCell(NETWORKS[model]), *(row.get(metric, TextCell("–")) for metric in metrics)]
        for model, row in cells.items()
    ]
    title = "Our WHVI beside the paper's best method"
    caption = "In each field: ours, the paper's best, the difference, and whose it is."
    return [Table(title, ["network", *(METRICS[metric] for metric in metrics)], rows, caption)] if rows else []
