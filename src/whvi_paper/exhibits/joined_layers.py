"""The paper's announced future work: one g for all layers, or all weights in one matrix that is cut into layers."""

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import Any

import torch

from whvi.inference import Progress, fit
from whvi.inference.compiled import can_compile
from whvi.nn.structured import StructuredLayer
from whvi.page import figure_svg
from whvi_paper import grid, recipe
from whvi_paper.blocks import Block, Entry, Figure, Shown
from whvi_paper.data import load, split
from whvi_paper.exhibits import classification, uci_regression
from whvi_paper.exhibits.covariance import normalised
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.measured import plan
from whvi_paper.networks import network
from whvi_paper.networks.joined import covariance
from whvi_paper.report.compare import method_table
from whvi_paper.store import Record
from whvi_paper.training import Standardised, make_likelihood, outputs_of

NAME = "joined-layers"
TITLE = "One g for all layers, and one matrix for all weights"
SOURCE = "Conclusions: announced as future work"
REGRESSION, CLASSIFICATION = ("concrete", "energy"), ("eeg",)
METHODS = {
    "whvi": "WHVI",
    "whvi-embed": "own g, blocks of 128",
    "whvi-shared-g": "shared g",
    "whvi-one-matrix": "one matrix",
}
OWN, JOINED = "whvi-embed", ("whvi-shared-g", "whvi-one-matrix")
METRICS = {"regression": ("rmse", "mnll"), "classification": ("error", "mnll")}
PLANS = {"recipe": 10_000, "quick": 1_000, "smoke": 5}
"""Steps of the networks whose covariance is shown."""
ENTRIES, DRAWN = 200, 32
"""Entries of each layer's weight: those that are looked at, and the first of them, which are drawn."""
TEXT = (
    "Two hidden layers of 128 units. To have one g, layers need a g of one size: the first has one block of side 128, "
    "most of whose columns meet zeros, like the second (“own g, blocks of 128”; WHVI itself has blocks as wide as the "
    "inputs). “Shared g” differs from that in nothing but the g, which both layers have in common. “One matrix” is "
    "S1 H diag(g) H S2 of side 256, where each layer has rows and columns of its own. The output is mean field, and "
    "not in it. Training is that of WHVI. "
)


def jobs(profile: str) -> list[Job]:
    """Networks on the datasets, those of the tables not again, and the covariance of one network of each kind."""
    others, shape = [method for method in METHODS if method != "whvi"], [(2, 128)]
    settings = {"dataset": REGRESSION[0], "steps": plan(PLANS, profile), "depth": 2, "width": 128, "seed": 0}
    inputs = tuple({"method": method, **settings, "entries": ENTRIES} for method in others)
    return [
        *grid.jobs(uci_regression.NAME, REGRESSION, ["whvi"], shape, profile),
        *grid.jobs(classification.NAME, CLASSIFICATION, ["whvi"], shape, profile),
        *grid.jobs(NAME, REGRESSION, others, shape, profile, how=recipe.JOINED),
        *grid.jobs(NAME, CLASSIFICATION, others, shape, profile),
        Job(NAME, "covariance", inputs, measure, cost=2.0),
    ]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Correlations between weights of the two hidden layers of a trained network: all that are looked at, and some."""
    results: list[Results] = []
    for one in inputs:
        first, second = hidden = trained(one)
        generator = torch.Generator().manual_seed(one["seed"])
        chosen = [
            torch.randperm(layer.weight_at().numel(), generator=generator)[: one["entries"]]
            for layer in (first, second)
        ]
        found = normalised(covariance(hidden, chosen))
        across = found[: one["entries"], one["entries"] :].abs()
        size, drawn = one["entries"], torch.cat([start + torch.arange(DRAWN) for start in (0, one["entries"])])
        within = [part[~torch.eye(size, dtype=torch.bool)].abs() for part in (found[:size, :size], found[size:, size:])]
        results.append(
            {
                "metrics": {
                    "across_layers": round(float(across.mean()), 6),
                    "within_layers": round(float(torch.cat(within).mean()), 6),
                },
                "correlations": [[round(value, 3) for value in row] for row in found[drawn][:, drawn].tolist()],
            }
        )
        report(len(results) / len(inputs))
    return results


def trained(one: Inputs) -> list[StructuredLayer]:
    """The hidden layers of a network that is trained on the first split."""
    data, settings = load(one["dataset"]), recipe.JOINED.configuration(one["method"], "regression", one["depth"])
    rows = Standardised(split(data, 0, settings["scaling"]), data.task).train
    torch.manual_seed(one["seed"])
    model = network(one["method"], data.x.shape[1], outputs_of(data), one["depth"], one["width"])
    fit(
        model,
        make_likelihood(data, settings),
        rows,
        steps=one["steps"],
        algorithm=recipe.algorithm(one["method"], settings, one["steps"]),
        batch_size=settings["batch_size"],
        seed=one["seed"],
        callbacks=[Progress(False)],
        compile=one["steps"] >= 5000 and can_compile(),
    )
    return [layer for layer in model if isinstance(layer, StructuredLayer)]


def show(records: Sequence[Record]) -> Shown:
    """A table for each metric, parameters, and the correlations between layers."""
    looks = [record for record in records if "correlations" in record["results"]]
    entries: list[Entry] = []
    for task, metrics in METRICS.items():
        mine = [record for record in records if record["inputs"].get("task") == task]
        entries += grid.entries(NAME, mine, lambda *_: None, metrics, list(METHODS))
    once = [entry for entry in entries if entry.metric == "mnll"]
    tables = [
        method_table("RMSE, or share of rows in error", [e for e in entries if e.metric != "mnll"], METHODS, usual=8),
        method_table("MNLL", once, METHODS, usual=8),
        method_table("Parameters", once, METHODS, text=lambda entry: f"{entry.parameters:,}"),
    ]
    figures = [Figure("Correlations of weights, first and second hidden layer", draw(looks), alternative=WORDS)]
    blocks: list[Block] = [*(one for one in tables if one.rows), *(figures if looks else [])]
    numbers = [*entries, *correlations(looks)]
    return Shown(NAME, TITLE, SOURCE, TEXT + " ".join(filter(None, (told(entries), across(looks)))), blocks, numbers)


WORDS = "Correlation matrices of entries of both weights: the blocks between layers are zero where each has its own g."


def told(entries: Sequence[Entry]) -> str:
    """In how many numbers layers with something in common are better than those with a g of their own."""
    found = {(entry.dataset, entry.metric, entry.method): entry.mean for entry in entries}
    parts = []
    for method in JOINED:
        pairs = [(value, found[at[0], at[1], OWN]) for at, value in found.items() if at[2] == method]
        if pairs:
            better = sum(joined < own for joined, own in pairs)
            parts.append(f"{METHODS[method]} in {better} of {len(pairs)}")
    return f"Numbers that are better than with a g for each layer: {', '.join(parts)}." if parts else ""


def across(looks: Iterable[Record]) -> str:
    """The mean absolute correlation of two weights of different layers, for each kind of network."""
    parts = [
        f"{METHODS[one['inputs']['method']]} {one['results']['metrics']['across_layers']:.3f} "
        f"(within a layer {one['results']['metrics']['within_layers']:.3f})"
        for one in ordered(looks)
    ]
    start = "Mean absolute correlation of two weights of different layers after training:"
    return f"{start} {', '.join(parts)}." if parts else ""


def ordered(looks: Iterable[Record]) -> list[Record]:
    """In the order of the methods."""
    return sorted(looks, key=lambda one: list(METHODS).index(one["inputs"]["method"]))


def correlations(looks: Iterable[Record]) -> list[Entry]:
    """As published numbers."""
    return [
        Entry(NAME, i["method"], i["dataset"], "trained", i["depth"], i["width"], metric, value, nan, 1,
              records=(one["name"],))
        for one in looks
        for i in [one["inputs"]]
        for metric, value in one["results"]["metrics"].items()
    ]  # fmt: skip


def draw(looks: Iterable[Record]) -> str:
    """A picture for each kind of network."""
    from matplotlib.figure import Figure as Canvas

    shown = ordered(looks)
    canvas = Canvas(figsize=(3.4 * max(1, len(shown)) + 0.8, 3.6), layout="constrained")
    axes = canvas.subplots(1, max(1, len(shown)), squeeze=False)[0]
    image: Any = None
    for axis, one in zip(axes, shown, strict=False):
        matrix = one["results"]["correlations"]
        image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axis.set_title(METHODS[one["inputs"]["method"]], fontsize=10)
        axis.set(xticks=[], yticks=[], xlabel="entries of W₁, then of W₂")
        axis.axhline(len(matrix) / 2 - 0.5, color="0.2", linewidth=0.8)
        axis.axvline(len(matrix) / 2 - 0.5, color="0.2", linewidth=0.8)
    if image is not None:
        canvas.colorbar(image, ax=axes, shrink=0.7, label="correlation")
    return figure_svg(canvas)
