"""Exhibits that are grids of trained networks: their jobs, and the published numbers that come of their records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Any

from whvi_paper import printed, recipe
from whvi_paper.blocks import Entry
from whvi_paper.data import DATASETS
from whvi_paper.jobs import Inputs, Job
from whvi_paper.store import Record
from whvi_paper.training import train

Shape = tuple[int, int]
"""Hidden layers, and units of each."""
Printed = Callable[[str, str, str, int, int], printed.Pair | None]
"""(method, dataset, metric, depth, width) -> what the paper prints."""


def jobs(
    exhibit: str,
    datasets: Sequence[str],
    methods: Sequence[str],
    shapes: Sequence[Shape] | Callable[[str], Sequence[Shape]],
    profile: str,
    most_steps: int | None = None,
    **more: Any,
) -> list[Job]:
    """One job for each dataset, method and shape: all splits at once. ``more`` goes into the inputs.

    A smoke test does with the smallest dataset.
    """
    settings = dict(recipe.profile(profile))
    settings["steps"] = min(settings["steps"], most_steps or settings["steps"])
    if profile == "smoke":
        datasets = [min(datasets, key=lambda name: DATASETS[name].rows)]
    found = []
    for dataset, method in product(datasets, methods):
        for depth, width in shapes(dataset) if callable(shapes) else shapes:
            found.append(_job(exhibit, dataset, method, depth, width, settings, more))
    return found


def _job(
    exhibit: str, dataset: str, method: str, depth: int, width: int, settings: Mapping[str, Any], more: Inputs
) -> Job:
    task = str(DATASETS[dataset].task)
    configuration = recipe.configuration(method, task)
    steps = recipe.steps(method, settings["steps"])
    common = {
        "task": task,
        "dataset": dataset,
        "method": method,
        "depth": depth,
        "width": width,
        "steps": steps,
        "samples": settings["samples"],
        "configuration": configuration,
        **more,
    }
    inputs = tuple({**common, "split": index, "seed": index} for index in range(settings["splits"]))
    dense = 1.0 if method == "whvi" else 1.0 + (width / 128) ** 2
    return Job(exhibit, f"{method} {dataset} {depth}x{width}", inputs, train, cost=dense * depth * steps / 8000)


def entries(exhibit: str, records: Iterable[Record], paper: Printed, metrics: Sequence[str]) -> list[Entry]:
    """Means and standard deviations over splits, beside the paper's numbers."""
    cells: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        inputs = record["inputs"]
        cells[tuple(inputs[key] for key in ("dataset", "method", "depth", "width"))].append(record)
    return [entry(exhibit, cell, metric, paper) for cell in cells.values() for metric in metrics]


def entry(exhibit: str, cell: Sequence[Record], metric: str, paper: Printed) -> Entry:
    """One published number: a metric over the splits of one network on one dataset."""
    inputs = cell[0]["inputs"]
    dataset, method, depth, width = (inputs[key] for key in ("dataset", "method", "depth", "width"))
    values = [record["results"]["metrics"][metric] for record in cell]
    pair = paper(method, dataset, metric, depth, width)
    corrected = None
    if pair is not None:
        outputs = len(DATASETS[dataset].targets)
        off = metric == "mnll" and inputs["task"] == "regression"
        corrected = printed.corrected(method, pair[0], outputs) if off else pair[0]
    return Entry(
        exhibit=exhibit,
        method=method,
        dataset=dataset,
        model="mlp",
        depth=depth,
        width=width,
        metric=metric,
        mean=fmean(values),
        std=stdev(values) if len(values) > 1 else 0.0,
        n=len(values),
        paper_mean=None if pair is None else pair[0],
        paper_std=None if pair is None else pair[1],
        paper_corrected=corrected,
        cpu_seconds=sum(record["cpu_seconds"] for record in cell),
        parameters=cell[0]["results"]["parameters"],
        failed=sum(record["failures"] for record in cell),
        records=tuple(sorted(record["name"] for record in cell)),
    )
