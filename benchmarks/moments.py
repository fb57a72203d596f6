"""Prediction without samples against 256 samples: ``python benchmarks/moments.py [dataset ...] [--table]``.

``WHVIRegressor`` with two hidden layers of 128 units, trained for 3,000 steps on 90 % of the rows of the eight UCI
regression sets (of energy and naval the first output). On the other rows: mean negative log density (MNLL) and RMSE by
256 samples, by another 256, and by ``method="moments"``. Then the time of one prediction of a network 64-512-512-1 for
a batch of 128 in float32 on one thread, as a multiple of one pass of the dense network: the fastest of many calls, all
in turn in one process, without gradients. Writes ``results/bench/moments.json``, one entry after the other; what is
there is not computed again.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn

from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.predictive import moments_of, predict
from whvi.sklearn import WHVIRegressor
from whvi_paper.bench.record import keep
from whvi_paper.data import load
from whvi_paper.data.splits import split
from whvi_paper.measured import threads

RECORD = Path(__file__).parent.parent / "results/bench/moments.json"
DATASETS = ("yacht", "boston", "energy", "concrete", "kin8nm", "powerplant", "naval", "protein")
SPLITS, STEPS, SAMPLES = 1, 3_000, 256
WIDTH, BATCH, FEATURES, ROUNDS = 512, 128, 64, 200


def compared(name: str, index: int) -> dict[str, float]:
    """MNLL and RMSE of a fit by samples and by moments, on rows that were not trained on."""
    part = split(load(name), index)
    (x, y), (test_x, test_y) = ((a.double().numpy(), b[:, 0].numpy()) for a, b in (part.train, part.test))
    model = WHVIRegressor((128, 128), max_steps=STEPS, random_state=index).fit(x, y)
    found: dict[str, float] = {}
    for label, seed in (("samples", 1), ("other_samples", 2), ("moments", None)):
        options: dict[str, Any] = {"method": "moments"}
        if seed is not None:
            model.set_params(samples=SAMPLES)
            model.seed_, options = seed, {}  # of the functions: training is done
        mnll = -float(np.mean(model.log_prob(test_x, test_y, **options)))
        rmse = float(np.sqrt(np.mean(np.square(model.predict(test_x, **options) - test_y))))
        found |= {f"mnll_{label}": mnll, f"rmse_{label}": rmse}
    return found


def timed() -> dict[str, float]:
    """Seconds of each way to predict."""
    torch.manual_seed(0)
    sizes, x = (FEATURES, WIDTH, WIDTH, 1), torch.randn(BATCH, FEATURES)

    def network(hidden: Callable[[int, int], nn.Module], last: Callable[[int, int], nn.Module]) -> nn.Module:
        first, second = hidden(sizes[0], sizes[1]), hidden(sizes[1], sizes[2])
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last(sizes[2], sizes[3])).eval()

    dense, ours = network(nn.Linear, nn.Linear), network(WHVILinear, MeanFieldLinear)
    likelihood = Gaussian()
    contenders: dict[str, Callable[[], object]] = {
        "dense pass": lambda: dense(x),
        "moments_of": lambda: moments_of(ours, x),
        "predict, moments": lambda: predict(ours, x, likelihood=likelihood, method="moments"),
        "predict, 64 samples": lambda: predict(ours, x, 64, likelihood=likelihood),
    }
    with threads(1), torch.no_grad():
        return {name: float(f"{seconds:.4g}") for name, seconds in fastest(contenders).items()}


def fastest(contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of the fastest call of each: those that the machine did not interrupt."""
    found = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start = perf_counter()
            run()
            found[name] = min(found[name], perf_counter() - start)
    return found


def table(record: dict[str, Any]) -> str:
    """For ``docs/inference.md``: mean over splits, and times as multiples of a dense pass."""
    head = ("data", "MNLL, 256 samples", "another 256", "moments", "RMSE, 256 samples", "moments")
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    keys = ("mnll_samples", "mnll_other_samples", "mnll_moments", "rmse_samples", "rmse_moments")
    for name in DATASETS:
        if found := [one for key, one in record["sets"].items() if key.split()[0] == name]:
            values = [fmean(one[key] for one in found) for key in keys]
            rows.append(f"| {name} | " + " | ".join(f"{value:.4g}" for value in values) + " |")
    if seconds := record.get("seconds"):
        rows += ["", "| 64-512-512-1, batch 128 | time |", "|---|---|"]
        rows += [f"| {name} | {value / seconds['dense pass']:.1f}x |" for name, value in seconds.items()]
    return "\n".join(rows)


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(DATASETS))
    parser.add_argument("--table", action="store_true", help="only print the table of the record")
    arguments = parser.parse_args()
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"sets": {}}
    if not arguments.table:
        for index in range(SPLITS):
            for name in arguments.datasets:
                if f"{name} {index}" not in record["sets"]:
                    record["sets"][f"{name} {index}"] = compared(name, index)
                    keep(RECORD, record)
        if "seconds" not in record:
            record["seconds"] = timed()
            keep(RECORD, record)
    print(table(record))


if __name__ == "__main__":
    main()
