"""WHVIRegressor beside scikit-learn's own: ``python benchmarks/estimators.py [dataset ...] [--only method] [--table]``.

Five folds of scikit-learn's diabetes and of the UCI regression sets (of energy and naval the first output, for all
methods), each method with its defaults. RMSE, mean negative log predictive density (MNLL), and the share of targets
within 90 % intervals, on rows that were not trained on. How each rival gets a density and an interval is said at its
function. Writes ``results/bench/estimators.json``, one entry after the other; what is there is not computed again.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from whvi_paper import tabular
from whvi_paper.bench.record import keep
from whvi_paper.data import load
from whvi_paper.tabular import LEVEL, Array, Forecast, Method, gaussian

RECORD = Path(__file__).parent.parent / "results/bench/estimators.json"
DATASETS = ("yacht", "diabetes", "boston", "energy", "concrete", "kin8nm", "powerplant", "naval", "protein")
FOLDS = 5


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
    "WHVIRegressor": tabular.whvi,
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


def measure(name: str, method: str, step: Callable[[], None]) -> dict[str, Any]:
    """Means over folds, and each fold's numbers."""
    x, y = table_of(name)
    folds: dict[str, list[float]] = {"rmse": [], "mnll": [], "coverage_90": []}
    start = time.process_time()
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(x):
        law = METHODS[method](x[train], y[train], 0)(x[test], y[test])
        folds["rmse"].append(float(np.sqrt(np.mean(np.square(law.mean - y[test])))))
        folds["mnll"].append(-float(np.mean(law.log_prob)))
        folds["coverage_90"].append(float(np.mean((law.low <= y[test]) & (y[test] <= law.high))))
        step()
    seconds = (time.process_time() - start) / FOLDS
    return {
        **{key: round(fmean(values), 6) for key, values in folds.items()},
        "rows": len(x),
        "cpu_seconds_per_fold": round(seconds, 2),
        "folds": {key: [round(value, 6) for value in values] for key, values in folds.items()},
    }


def stored() -> dict[str, dict[str, Any]]:
    """What was measured: dataset -> method -> numbers."""
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def missing(datasets: list[str], methods: list[str]) -> Iterator[tuple[str, str]]:
    """What is to be done, quick methods first within a dataset."""
    for name in datasets:
        for method in methods:
            if method not in stored().get(name, {}):
                yield name, method


def ranks(record: dict[str, dict[str, Any]], metric: str) -> dict[str, float]:
    """The mean place of each method, 1 for the best, over the datasets that have all of them."""
    whole = [row for row in record.values() if all(method in row for method in METHODS)]
    places = [sorted(METHODS, key=lambda method: row[method][metric]) for row in whole]
    return {method: fmean(1 + place.index(method) for place in places) for method in METHODS} if whole else {}


def show(record: dict[str, dict[str, Any]]) -> str:
    """The record as tables in Markdown."""
    lines = []
    for title, metric, digits in (("MNLL", "mnll", 3), ("RMSE", "rmse", 4), ("90 % coverage", "coverage_90", 3)):
        lines += [f"| {title} | " + " | ".join(METHODS) + " |", "| --- |" + " --- |" * len(METHODS)]
        for name in DATASETS:
            row = record.get(name, {})
            cells = [f"{row[method][metric]:.{digits}f}" if method in row else "-" for method in METHODS]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        if metric != "coverage_90" and (mean := ranks(record, metric)):
            lines.append("| **average rank** | " + " | ".join(f"{mean[method]:.2f}" for method in METHODS) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", help=f"default: {', '.join(DATASETS)}")
    parser.add_argument("--only", action="append", help="name of a method; may be repeated")
    parser.add_argument("--table", action="store_true", help="only print the tables of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    jobs = [] if options.table else list(missing(options.datasets or list(DATASETS), options.only or list(METHODS)))
    with Progress(disable=options.table) as bar:
        task = bar.add_task("", total=FOLDS * len(jobs))
        for name, method in jobs:
            bar.update(task, description=f"{name}, {method}")
            found = measure(name, method, lambda: bar.advance(task))
            record = stored()  # another run may have added to it
            record.setdefault(name, {})[method] = found
            keep(RECORD, record)
    print(show(stored()))


if __name__ == "__main__":
    main()
