"""WHVIClassifier beside trees: ``python benchmarks/classifiers.py [dataset ...] [--only method] [--table]``.

scikit-learn's breast cancer, wine and digits, and eeg, magic, letter and drive; 90 % of the rows train and 10 % test,
by the splits of ``whvi_paper.data`` (features clipped to their 0.1 % and 99.9 % quantiles, as eeg has broken readings).
Of the rows to train with, all methods have the first 4,000, which are in random order, so that it takes minutes. Log
loss in nats, share of rows in error, expected calibration error, and CPU seconds of a fit, of the estimators with their
defaults. Writes ``results/bench/classifiers.json``, one fit after the other; what is there is not computed again.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from whvi.predictive import ece, error_rate
from whvi.sklearn import WHVIClassifier
from whvi_paper.bench.record import keep
from whvi_paper.data import DatasetKind, LoadedDataset, load, split
from whvi_paper.exhibits.uci_standard import cpu_seconds

RECORD = Path(__file__).parent.parent / "results/bench/classifiers.json"
BUNDLED: dict[str, Callable[..., Any]] = {
    "breast cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
}
DATASETS = (*BUNDLED, "eeg", "magic", "letter", "drive")
METHODS: dict[str, Callable[[int], Any]] = {
    "WHVI, 8 members": lambda seed: WHVIClassifier(random_state=seed),
    "WHVI, 1 member": lambda seed: WHVIClassifier(n_members=1, random_state=seed),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "random forest": lambda seed: RandomForestClassifier(random_state=seed),
}
MOST_ROWS = 4_000
"""To train with."""
LEAST = 1e-15
"""Probability that a log loss takes for zero; forests say zero."""
METRICS = {"log_loss": 3, "error": 4, "ece": 3, "cpu_seconds": 1}
"""And their decimals."""


def data_of(name: str) -> LoadedDataset:
    """A table with labels."""
    if name not in BUNDLED:
        return load(name)
    found = BUNDLED[name]()
    features = tuple(map(str, getattr(found, "feature_names", ())))
    return LoadedDataset(
        name,
        DatasetKind.CLASSIFICATION,
        found.data,
        found.target,
        features,
        (),
        tuple(map(str, found.target_names)),
        "",
    )


def measure(name: str, method: str, index: int) -> dict[str, float]:
    """A fit to the training rows of a split, judged on its test rows."""
    parts = split(data_of(name), index, "clipped")
    (x, y), (test_x, test_y) = ([tensor.numpy() for tensor in part] for part in (parts.train, parts.test))
    x, y = x[:MOST_ROWS], y[:MOST_ROWS]
    start = cpu_seconds()
    model = METHODS[method](index).fit(x, y)
    spent = cpu_seconds() - start
    found = np.zeros((len(test_y), int(max(y.max(), test_y.max())) + 1))
    found[:, model.classes_] = model.predict_proba(test_x)
    probabilities, labels = torch.from_numpy(found), torch.from_numpy(test_y)
    log_loss = -probabilities[torch.arange(len(labels)), labels].clamp_min(LEAST).log().mean()
    values = {"log_loss": log_loss, "error": error_rate(probabilities, labels), "ece": ece(probabilities, labels)}
    return {**{key: round(float(value), 6) for key, value in values.items()}, "cpu_seconds": round(spent, 2)}


def stored() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """What was measured: dataset -> method -> split -> numbers."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def show() -> str:
    """The record as tables in Markdown: means over the splits that all methods with numbers have."""
    lines = []
    for metric, digits in METRICS.items():
        lines += [f"| {metric} | splits | " + " | ".join(METHODS) + " |", "| --- |" + " --- |" * (len(METHODS) + 1)]
        for name in (one for one in DATASETS if one in stored()):
            rows = stored()[name]
            common = set.intersection(*(set(splits) for splits in rows.values()))
            values = {one: fmean(splits[index][metric] for index in common) for one, splits in rows.items() if common}
            cells = [f"{values[one]:.{digits}f}" if one in values else "–" for one in METHODS]
            lines.append(f"| {name} | {len(common)} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", help=f"default: {', '.join(DATASETS)}")
    parser.add_argument("--only", action="append", help="name of a method; may be repeated")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="only print the tables of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    jobs = [
        (name, method, index)
        for index in range(0 if options.table else options.splits)
        for name in options.datasets or DATASETS
        for method in options.only or METHODS
    ]
    for name, method, index in jobs:
        if str(index) not in stored().get(name, {}).get(method, {}):
            found = measure(name, method, index)
            record = stored()  # another run may have added to it
            record.setdefault(name, {}).setdefault(method, {})[str(index)] = found
            keep(RECORD, record)
    print(show())


if __name__ == "__main__":
    main()
