"""Estimators on the standard splits of UCI sets, beside the numbers that others publish for the same splits."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from whvi_paper import tabular
from whvi_paper.blocks import Entry, Shown, Table, TextCell
from whvi_paper.data.standard import splits_of, standard_file, standard_split
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.measured import cells, plan, threads
from whvi_paper.report.compare import mean_and_std, method_table
from whvi_paper.store import Record

NAME = "uci-standard"
TITLE = "Estimators on the standard splits"
SOURCE = "Our addition"
TEXT = (
    "The splits of Hernandez-Lobato and Adams (2015) and Gal and Ghahramani (2016), 20 of each set and 5 of protein, "
    "one target each. `WHVIRegressor()` with its defaults, with one member and with eight; its rivals with theirs. "
    "The defaults were chosen on training rows, with one exception: the idea that calibration removes the disagreement "
    "of members from the spread came after the 90 % coverage of the test rows of split 0 of yacht, boston, energy and "
    "concrete had been seen, and was then chosen on held-out training rows of boston. The deep ensemble is of plain "
    "networks of 2 x "
    "128 units that give a mean and a variance, trained for 40 epochs, the best of up to three settings on held-"
    "out training rows of yacht and concrete; the Gaussian process "
    "sees at most 1,000 training rows; boosting has a normal density around its prediction, and intervals by quantile "
    "loss. CPU seconds are of one fit on one thread, compilers included. Ranks are over the splits that all methods "
    "were run on; published numbers are means over all splits, and ours over those that were run."
)
METHODS = {
    "whvi": "WHVI, 1 member",
    "whvi-8": "WHVI, 8 members",
    "ensemble": "deep ensemble of 5",
    "gp": "Gaussian process",
    "boosting": "HistGradientBoosting",
    "ngboost": "NGBoost",
}
FITTED: Mapping[str, tabular.Method] = {
    "whvi": partial(tabular.whvi, members=1),
    "whvi-8": partial(tabular.whvi, members=8),
    "ensemble": tabular.deep_ensemble,
    "gp": tabular.gaussian_process,
    "boosting": tabular.gradient_boosting,
    "ngboost": tabular.natural_gradient_boosting,
}
Runs = dict[tuple[str, str], list[Record]]
"""Records of a set and a method."""
DATASETS = ("yacht", "boston", "energy", "concrete", "powerplant", "kin8nm", "naval", "protein")
TABLES = {
    "rmse": "RMSE",
    "mnll": "MNLL",
    "crps": "CRPS",
    "coverage_90": "Share of targets in 90 % intervals",
    "width_90": "Width of 90 % intervals",
    "cpu_seconds": "CPU seconds of a fit",
}
RANKED = ("rmse", "mnll", "crps")
_DROPOUT, _BASELINES = "github.com/yaringal/DropoutUncertaintyExps", "github.com/google/uncertainty-baselines"
_XGB = "xgboost-distribution.readthedocs.io"


def _row(*values: float | None) -> dict[str, float]:
    """Of the sets in their order; None where there is no number."""
    return {name: value for name, value in zip(DATASETS, values, strict=True) if value is not None}


PUBLISHED: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "MC dropout, grid search": (f"{_DROPOUT}, README", _row(1.25, 2.40, 1.21, 2.93, 2.80, -1.14, -4.45, 2.87)),
    "PBP-MV": (f"{_BASELINES}, baselines/uci", _row(1.64, 2.54, 1.01, 3.04, 2.78, -1.28, -4.85, 2.77)),
    "deep ensemble of 10": (f"{_BASELINES}, baselines/uci", _row(0.73, 6.11, 0.61, 3.20, 3.18, -1.17, -5.17, 3.12)),
    "NGBoost": (_XGB, _row(0.75, 2.55, 0.62, 3.09, 2.77, None, -3.91, 2.91)),
    "XGBDistribution": (_XGB, _row(0.89, 2.62, 0.58, 3.14, 2.77, None, -5.11, 2.81)),
}
"""Published MNLL, and where."""
DROPOUT_RMSE = _row(0.666, 2.90, 0.539, 4.83, 4.01, 0.0789, 0.00074, 4.27)
"""Of MC dropout, 100 times the epochs, from the logs of the same repository."""


def jobs(profile: str) -> list[Job]:
    """A job for each split, all methods: eight sets and six methods, or in a smoke test two quick ones on one set."""
    sets, methods, splits = plan(
        {
            "recipe": (DATASETS, tuple(METHODS), 20),
            "quick": (("yacht", "concrete"), tuple(METHODS), 1),
            "smoke": (("yacht",), ("boosting", "gp"), 1),
        },
        profile,
    )
    return [
        Job(NAME, f"{method} {dataset} {split}", (inputs(dataset, method, split),), measure, load=standard_file)
        for dataset in sets
        for method in methods
        for split in range(min(splits, splits_of(dataset)))
    ]


def inputs(dataset: str, method: str, split: int) -> Inputs:
    """Those of a record."""
    return {"dataset": dataset, "method": method, "split": split, "seed": split}


def measure(several: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Fit on the training rows of a split, and judge on its test rows."""
    results: list[Results] = []
    for one in several:
        data = standard_split(one["dataset"], one["split"])
        with threads(1):
            start = cpu_seconds()
            say = FITTED[one["method"]](data.x, data.y, one["seed"])
            spent = cpu_seconds() - start
            metrics = judged(say(data.test_x, data.test_y), data.test_y) | {"cpu_seconds": round(spent, 2)}
        results.append({"metrics": metrics, "data_sha256": data.sha256})
        report(len(results) / len(several))
    return results


def judged(found: tabular.Forecast, y: tabular.Array) -> dict[str, float]:
    """Metrics of what a method says of test rows."""
    inside = (found.low <= y) & (y <= found.high)
    values = {
        "rmse": np.sqrt(np.mean(np.square(found.mean - y))),
        "mnll": -np.mean(found.log_prob),
        "crps": found.crps,
        "coverage_90": np.mean(inside),
        "width_90": np.mean(found.high - found.low),
    }
    return {name: float(f"{float(value):.6g}") for name, value in values.items()}


def cpu_seconds() -> float:
    """Of this process and of compilers that it ran."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def show(records: Sequence[Record]) -> Shown:
    """A table for each metric, MNLL beside what others publish, and the mean ranks."""
    runs: Runs = defaultdict(list)
    for record in records:
        runs[record["inputs"]["dataset"], record["inputs"]["method"]].append(record)
    places = [(dataset, method) for dataset in DATASETS for method in METHODS if (dataset, method) in runs]
    entries = [entry(metric, *place, runs[place]) for metric in TABLES for place in places]
    tables = []
    for metric, title in TABLES.items():
        mine = [one for one in entries if one.metric == metric]
        table = method_table(title, mine, METHODS, text=field)
        mean = ranks(metric, runs) if metric in RANKED else {}
        last = [TextCell("mean rank"), *(TextCell(f"{mean[name]:.2f}" if name in mean else "–") for name in METHODS)]
        tables.append(Table(title, table.head, [*table.rows, last], table.caption) if mean else table)
    return Shown(NAME, TITLE, SOURCE, f"{TEXT} {standing(entries)}", [*tables, published(entries)], entries)


def entry(metric: str, dataset: str, method: str, runs: Sequence[Record]) -> Entry:
    """Mean and standard deviation of a metric over the splits that were run."""
    values = [float(record["results"]["metrics"][metric]) for record in runs]
    return Entry(
        NAME, method, dataset, "tabular", 0, 0, metric, fmean(values), stdev(values) if len(values) > 1 else nan,
        len(values), cpu_seconds=sum(record["cpu_seconds"] for record in runs),
        failed=sum(record["failures"] for record in runs), records=tuple(sorted(record["name"] for record in runs)),
    )  # fmt: skip


def field(one: Entry) -> str:
    """Mean and standard deviation, and the splits where it is not all of them."""
    least = 1 if one.metric == "cpu_seconds" else 2
    whole = one.n == splits_of(one.dataset)
    return mean_and_std(one.mean, one.std, least) + ("" if whole else f"\n{one.n} of {splits_of(one.dataset)} splits")


def ranks(metric: str, runs: Runs) -> dict[str, float]:
    """The mean place of each method, 1 for the best, over the sets that all were run on, by splits that all have."""
    rows = []
    for dataset in DATASETS:
        found = {method: _by_split(metric, runs.get((dataset, method), ())) for method in METHODS}
        common = set.intersection(*(set(values) for values in found.values()))
        if common:
            rows.append({method: fmean(values[one] for one in common) for method, values in found.items()})
    return {m: fmean(1 + sum(row[other] < row[m] for other in row) for row in rows) for m in METHODS} if rows else {}


def _by_split(metric: str, records: Sequence[Record]) -> dict[int, float]:
    return {record["inputs"]["split"]: record["results"]["metrics"][metric] for record in records}


def published(entries: Sequence[Entry]) -> Table:
    """MNLL of others, as they publish it for these splits, and RMSE of MC dropout."""
    ours = {(one.dataset, one.metric): one.mean for one in entries if one.method == "whvi-8"}
    rows = [
        cells(
            dataset,
            _number(ours.get((dataset, "mnll")), 2),
            *(_number(values.get(dataset), 2) for _, values in PUBLISHED.values()),
            _number(ours.get((dataset, "rmse")), 3),
            _number(DROPOUT_RMSE[dataset], 3),
        )
        for dataset in DATASETS
    ]
    head = ["dataset", "MNLL " + METHODS["whvi-8"], *PUBLISHED, "RMSE " + METHODS["whvi-8"], "RMSE MC dropout"]
    sources = "; ".join(f"{name}: {source}" for name, (source, _) in PUBLISHED.items())
    return Table("What others publish", head, rows, f"{sources}. RMSE of MC dropout: the logs of {_DROPOUT}.")


def _number(value: float | None, decimals: int) -> str:
    """With more decimals where these would show nothing."""
    return "–" if value is None else mean_and_std(value, nan, decimals)


def standing(entries: Sequence[Entry]) -> str:
    """On how many sets eight members are at or below all that is published, and cover what they say."""
    ours: dict[str, dict[str, Any]] = defaultdict(dict)
    for one in entries:
        if one.method == "whvi-8":
            ours[one.metric][one.dataset] = one.mean
    sets = list(ours["mnll"])
    if not sets:
        return "Eight members were not run yet."
    best = {name: min(row[name] for _, row in PUBLISHED.values() if name in row) for name in sets}
    dense = sum(round(ours["mnll"][name], 2) <= best[name] for name in sets)
    near = sum(ours["rmse"][name] <= DROPOUT_RMSE[name] for name in sets)
    held = sum(0.88 <= ours["coverage_90"][name] <= 0.92 for name in sets)
    return (
        f"Eight members are at or below every published MNLL on {dense} of {len(sets)} sets, at or below the RMSE of "
        f"MC dropout on {near}, and their 90 % intervals hold 88 to 92 % on {held}."
    )
