"""WHVIRegressor beside scikit-learn's own: ``python benchmarks/estimators.py [dataset ...] [--only method] [--table]``.

Five folds of scikit-learn's diabetes and of the UCI regression sets (of energy and naval the first output, for all
methods), or with ``--folds`` the first of them, each method with its defaults. RMSE, mean negative log predictive
density (MNLL), and the share of targets within 90 % intervals, on rows that were not trained on. How each rival gets a
density and an interval is said at its function. Writes ``results/bench/estimators.json``, fold after fold; what is in
it is not computed again. Each entry says which version of whvi it was measured with: "WHVIRegressor" is that of 0.1,
with one member, "WHVIRegressor, 8 members" the present one; the other methods did not change.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from whvi import __version__
from whvi_paper import tabular
from whvi_paper.bench.record import keep
from whvi_paper.data import load
from whvi_paper.exhibits.uci_standard import cpu_seconds
from whvi_paper.tabular import LEVEL, Array, Forecast, Method, gaussian

RECORD = Path(__file__).parent.parent / "results/bench/estimators.json"
DATASETS = ("yacht", "diabetes", "boston", "energy", "concrete", "kin8nm", "powerplant", "naval", "protein")
FOLDS = 5
EARLIER, PRESENT = "WHVIRegressor", "WHVIRegressor, 8 members"
METRICS = ("rmse", "mnll", "coverage_90")
Stored = dict[str, dict[str, dict[str, Any]]]


def bayesian_ridge(x: Array, y: Array, seed: int) -> Callable[[Array, Array], Forecast]:
    """A linear model; its own density."""
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(x, y)
    return lambda test_x, test_y: gaussian(*model.predict(test_x, return_std=True), test_y)


def random_forest(x: Array, y: Array, seed: int) -> Callable[[Array, Array], Forecast]:
    """A quantile forest: 100 trees, leaves of 5 rows at least.

    A test row is distributed as the training targets in its leaves, each tree counting the same. The interval are its
    quantiles; the density is the normal one with its mean and variance.
    """
    forest = RandomForestRegressor(min_samples_leaf=5, random_state=seed).fit(x, y)
    pools = [_by_leaf(leaves, y) for leaves in forest.apply(x).T]

    def say(test_x: Array, test_y: Array) -> Forecast:
        rows = []
        for leaves in forest.apply(test_x):
            found = [pool[leaf] for pool, leaf in zip(pools, leaves, strict=True)]
            values = np.concatenate(found)
            weights = np.concatenate([np.full(len(part), 1.0 / len(part)) for part in found])
            rows.append(_summary(values, weights / weights.sum()))
        mean, std, low, high = np.array(rows).T
        return gaussian(mean, std, test_y)._replace(low=low, high=high)

    return say


def _by_leaf(leaves: NDArray[np.int64], y: Array) -> dict[int, Array]:
    order = np.argsort(leaves, kind="stable")
    names, starts = np.unique(leaves[order], return_index=True)
    return dict(zip(names.tolist(), np.split(y[order], starts[1:]), strict=True))


def _summary(values: Array, weights: Array) -> tuple[float, float, float, float]:
    """Mean, standard deviation and the ends of the interval of a discrete distribution."""
    mean = values @ weights
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    outside = 0.5 - 0.5 * LEVEL
    low, high = values[order][np.searchsorted(below, [outside, 1.0 - outside]).clip(max=len(values) - 1)]
    return mean, max(np.sqrt(np.square(values - mean) @ weights), 1e-9), low, high


METHODS: dict[str, Method] = {
    PRESENT: tabular.whvi,
    "GaussianProcessRegressor": tabular.gaussian_process,
    "BayesianRidge": bayesian_ridge,
    "RandomForestRegressor": random_forest,
    "HistGradientBoostingRegressor": tabular.gradient_boosting,
}


def table_of(name: str) -> tuple[Array, Array]:
    """Inputs, and the first output."""
    if name == "diabetes":
        found: tuple[Array, Array] = load_diabetes(return_X_y=True)
        return found
    data = load(name)
    return np.asarray(data.x, np.float64), np.asarray(data.y, np.float64)[:, 0]


def measure(name: str, method: str, index: int) -> dict[str, float]:
    """A fit to the training rows of a fold, judged on its test rows."""
    x, y = table_of(name)
    train, test = list(KFold(FOLDS, shuffle=True, random_state=0).split(x))[index]
    start = cpu_seconds()
    law = METHODS[method](x[train], y[train], 0)(x[test], y[test])
    spent = cpu_seconds() - start
    return {
        "rmse": round(float(np.sqrt(np.mean(np.square(law.mean - y[test])))), 6),
        "mnll": round(-float(np.mean(law.log_prob)), 6),
        "coverage_90": round(float(np.mean((law.low <= y[test]) & (y[test] <= law.high))), 6),
        "cpu_seconds": round(spent, 2),
    }


def stored() -> Stored:
    """What was measured: dataset -> method -> numbers."""
    found: Stored = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def missing(datasets: list[str], methods: list[str], folds: int) -> Iterator[tuple[str, str, int]]:
    """What is to be done, fold after fold."""
    for index in range(folds):
        for name in datasets:
            for method in methods:
                if index >= folds_of(stored().get(name, {}).get(method)):
                    yield name, method, index


def folds_of(entry: dict[str, Any] | None) -> int:
    """How many were measured: the first ones."""
    return len(entry["folds"]["rmse"]) if entry else 0


def add(record: Stored, name: str, method: str, found: dict[str, float]) -> None:
    """One more fold, and means over all that there are."""
    entry = record.setdefault(name, {}).setdefault(
        method, {"version": __version__, "rows": len(table_of(name)[0]), "folds": {}}
    )
    for key, value in found.items():
        entry["folds"].setdefault(key, []).append(value)
    for key in METRICS:
        entry[key] = round(fmean(entry["folds"][key]), 6)


def common(record: Stored, methods: list[str], metric: str) -> dict[str, dict[str, float]]:
    """Means of a metric over the folds that all methods have, of the datasets where there are any."""
    found = {}
    for name in DATASETS:
        row = record.get(name, {})
        if folds := min(folds_of(row.get(method)) for method in methods):
            found[name] = {method: fmean(row[method]["folds"][metric][:folds]) for method in methods} | {"folds": folds}
    return found


def show(record: Stored, methods: list[str]) -> str:
    """The record as tables in Markdown, and the mean place of each method, 1 for the best."""
    lines = []
    for title, metric, digits in (("MNLL", "mnll", 3), ("RMSE", "rmse", 4), ("90 % coverage", "coverage_90", 3)):
        lines += [f"| {title} | folds | " + " | ".join(methods) + " |", "| --- |" + " --- |" * (len(methods) + 1)]
        rows = common(record, methods, metric)
        for name, row in rows.items():
            cells = [f"{row[method]:.{digits}f}" for method in methods]
            lines.append(f"| {name} | {row['folds']} | {' | '.join(cells)} |")
        if metric != "coverage_90" and rows:
            places = [sorted(methods, key=row.__getitem__) for row in rows.values()]
            mean = [fmean(1 + place.index(method) for place in places) for method in methods]
            lines.append("| **average rank** | | " + " | ".join(f"{value:.2f}" for value in mean) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", help=f"default: {', '.join(DATASETS)}")
    parser.add_argument("--only", action="append", help="name of a method; may be repeated")
    parser.add_argument("--folds", type=int, default=FOLDS, choices=range(1, FOLDS + 1), help="the first ones")
    parser.add_argument("--table", action="store_true", help="only print the tables of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    datasets, methods = options.datasets or list(DATASETS), options.only or list(METHODS)
    jobs = [] if options.table else list(missing(datasets, methods, options.folds))
    for name, method, index in track(jobs, disable=options.table):
        found = measure(name, method, index)
        record = stored()  # another run may have added to it
        add(record, name, method, found)
        keep(RECORD, record)
    others = [method for method in METHODS if method != PRESENT]
    print(show(stored(), [EARLIER, *others]), show(stored(), [PRESENT, *others]), sep="\n")


if __name__ == "__main__":
    main()
