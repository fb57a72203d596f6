"""Exhibits that are grids of trained networks: their jobs, and the published numbers that come of their records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import nan
from statistics import fmean, stdev
from typing import Any

from whvi_paper import printed, recipe
from whvi_paper.blocks import Cell, Entry
from whvi_paper.data import DATASETS, DatasetKind
from whvi_paper.jobs import Inputs, Job
from whvi_paper.store import Record
from whvi_paper.training import train

PROTOCOL = "protocol"
"""The exhibit that keeps what was trained by the paper's protocol."""
Shape = tuple[int, int]
"""Hidden layers, and units of each."""
Line = Callable[[Record], str]
"""The name of the line in a drawing that a record belongs to."""
Printed = Callable[[str, str, str, int, int], printed.Pair | None]
"""(method, dataset, metric, depth, width) -> what the paper prints."""


def jobs(
    exhibit: str,
    datasets: Sequence[str],
    methods: Sequence[str],
    shapes: Sequence[Shape] | Callable[[str], Sequence[Shape]],
    profile: str,
    most_steps: int | None = None,
    how: recipe.Recipe = recipe.PLAIN,
    **more: Any,
) -> list[Job]:
    """One job for each dataset, method and shape: all splits at once.

    ``how`` says how they are trained, and ``more`` goes into the inputs. A smoke test does with the smallest dataset.
    Under the profile "paper" it is the paper's protocol for all, with all of its steps, for the methods that have one;
    the records of all grids are then in one file, ``PROTOCOL``.
    """
    settings = dict(recipe.profile(profile))
    if profile == "paper":
        exhibit, how, most_steps = PROTOCOL, recipe.PROTOCOL, None
        methods = [method for method in methods if method in how.changes]
    settings["steps"] = min(settings["steps"], most_steps or settings["steps"])
    if profile == "smoke":
        datasets = [min(datasets, key=lambda name: DATASETS[name].rows)]
    found = []
    for dataset, method in product(datasets, methods):
        for depth, width in shapes(dataset) if callable(shapes) else shapes:
            found.append(_job(exhibit, dataset, method, depth, width, settings, how, more))
    return found


def _job(
    exhibit: str,
    dataset: str,
    method: str,
    depth: int,
    width: int,
    settings: Mapping[str, Any],
    how: recipe.Recipe,
    more: Inputs,
) -> Job:
    task = str(DATASETS[dataset].task)
    steps = how.steps(method, settings["steps"])
    common = {
        "task": task,
        "dataset": dataset,
        "method": method,
        "depth": depth,
        "width": width,
        "steps": steps,
        "samples": settings["samples"],
        "configuration": how.configuration(method, task, depth),
        **more,
    }
    inputs = tuple({**common, "split": index, "seed": index} for index in range(settings["splits"]))
    dense = 1.0 if method.startswith("whvi") else 1.0 + (width / 128) ** 2
    return Job(exhibit, f"{method} {dataset} {depth}x{width}", inputs, train, cost=dense * depth * steps / 8000)


def entries(
    exhibit: str, records: Iterable[Record], paper: Printed, metrics: Sequence[str], methods: Sequence[str]
) -> list[Entry]:
    """Means and standard deviations over splits, beside the paper's numbers, for each network that was trained.

    Where one method was run on it, the paper's numbers for the others come too, without any of ours (n = 0): what is
    the best in the paper does not depend on what was run here.
    """
    cells: dict[tuple[str, int, int], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        inputs = record["inputs"]
        cells[inputs["dataset"], inputs["depth"], inputs["width"]][inputs["method"]].append(record)
    found = []
    for (dataset, depth, width), runs in cells.items():
        for method, metric in product(methods, metrics):
            pair = paper(method, dataset, metric, depth, width)
            if method in runs or pair is not None:
                place = Entry(exhibit, method, dataset, "mlp", depth, width, metric, nan, nan, 0)
                found.append(filled(beside(place, pair), runs.get(method, ())))
    return found


def printed_cells(
    paper: Printed, datasets: Sequence[str], methods: Sequence[str], metrics: Sequence[str], shapes: Iterable[Shape]
) -> frozenset[Cell]:
    """Of what the paper prints numbers, run here or not.

    >>> len(printed_cells(printed.regression, printed.REGRESSION_DATASETS, ["mcd"], ["rmse", "mnll"], [(2, 64)]))
    14
    """
    places = product(methods, datasets, shapes, metrics)
    return frozenset(
        Cell(method, dataset, "mlp", depth, width, metric)
        for method, dataset, (depth, width), metric in places
        if paper(method, dataset, metric, depth, width) is not None
    )


def beside(entry: Entry, pair: printed.Pair | None) -> Entry:
    """The entry with the paper's number, and what to compare with."""
    if pair is None:
        return entry
    data = DATASETS[entry.dataset]
    off = entry.metric in ("mnll", "expected_nll") and data.task is DatasetKind.REGRESSION
    corrected = printed.corrected(entry.method, pair[0], len(data.targets)) if off else pair[0]
    return replace(entry, paper_mean=pair[0], paper_std=pair[1], paper_corrected=corrected)


def filled(entry: Entry, runs: Sequence[Record]) -> Entry:
    """The entry with our number: a metric over the splits of one network on one dataset."""
    if not runs:
        return entry
    values = [record["results"]["metrics"][entry.metric] for record in runs]
    return replace(
        entry,
        mean=fmean(values),
        std=stdev(values) if len(values) > 1 else nan,
        n=len(values),
        cpu_seconds=sum(record["cpu_seconds"] for record in runs),
        parameters=runs[0]["results"]["parameters"],
        failed=sum(record["failures"] for record in runs),
        records=tuple(sorted(record["name"] for record in runs)),
    )
