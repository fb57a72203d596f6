"""The paper's regression on UCI data, all splits at once: ``python benchmarks/replicas.py [yacht boston] [--table]``.

Networks of two hidden layers of 128 units, ReLU, 90 % of the rows to train and 10 % to test, 8 splits, targets as they
are (the bias of the output starts at their mean), batches of 64, Adam at 1e-3 with the paper's decay, noise fixed for
500 steps: all 8 splits are replicas of one run on one thread. Then such a run and one of a single split go on in turn,
for the ratio of their times.
Data are read from the folder that ``WHVI_DATA`` names. A run that is interrupted goes on from its checkpoint under
``out/``. Writes ``results/bench/replicas.json``; ``--table`` only prints the table of that record.
"""

import argparse
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whvi.bench.record import keep
from whvi.inference import SVI, fit_replicas
from whvi.inference.batches import StackedBatches, TensorBatches
from whvi.inference.replicas import StackedRun
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.predictive import predict

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "results/bench/replicas.json"
SPLITS, WIDTH, STEPS, SAMPLES = 8, 128, 50_500, 64
ASKED = {"yacht": (0.69, 1.40), "boston": (2.90, 2.60)}
PAPER = {"yacht": (0.69, 1.80), "boston": (3.14, 4.33)}
"""Root mean squared error and mean negative log density, as printed."""
Part = tuple[Tensor, Tensor]


def splits(name: str) -> list[tuple[Part, Part]]:
    """(train, test) of each split, inputs standardised by the training rows."""
    folder = os.environ.get("WHVI_DATA")
    if not folder or not (Path(folder) / f"{name}.npz").is_file():
        sys.exit(f"{name}.npz is not there; name its folder: WHVI_DATA=... python benchmarks/replicas.py")
    file = np.load(Path(folder) / f"{name}.npz")
    x, y = (torch.from_numpy(file[key]).float() for key in ("X", "y"))
    found = []
    for split in range(SPLITS):
        order = torch.from_numpy(np.random.default_rng(split).permutation(len(x)))
        train, test = order[: int(0.9 * len(x))], order[int(0.9 * len(x)) :]
        mean, std = x[train].mean(0), x[train].std(0)
        std = torch.where(std > 0, std, 1.0)
        found.append((((x[train] - mean) / std, y[train]), ((x[test] - mean) / std, y[test])))
    return found


def network(data: Part, seed: int) -> nn.Module:
    """The paper's network for some data; its output starts at their mean."""
    torch.manual_seed(seed)
    x, y = data
    last = MeanFieldLinear(WIDTH, 1)
    assert last.bias is not None
    with torch.no_grad():
        last.bias.mean.copy_(y.mean(0))
    sizes = (x.shape[1], WIDTH, WIDTH)
    hidden = [part for i, o in pairwise(sizes) for part in (WHVILinear(i, o), nn.ReLU())]
    return nn.Sequential(*hidden, last)


def train(name: str, steps: int) -> dict[str, Any]:
    """All splits at once; the quality on the test rows of each."""
    parts = splits(name)
    models = [network(part, split) for split, (part, _) in enumerate(parts)]
    likelihoods = [Gaussian(frozen_steps=500) for _ in parts]
    folder = ROOT / "out/replicas" / f"{name}-{steps}"
    resumed = folder.exists()
    start = time.process_time()
    fit_replicas(
        models,
        likelihoods,
        [part for part, _ in parts],
        steps=steps,
        checkpoint=folder,
        checkpoint_every=2500,
        progress=True,
    )
    seconds = time.process_time() - start
    rows = []
    for split, (model, likelihood, (_, (x, y))) in enumerate(zip(models, likelihoods, parts, strict=True)):
        prediction = predict(model, x, SAMPLES, likelihood=likelihood, seed=split)
        rows.append([float(prediction.rmse(y)), float(prediction.mnll(y)), float(prediction.expected_nll(y))])
    table = torch.tensor(rows)
    names = ("rmse", "mnll", "expected_nll")
    return {
        "steps": steps,
        "cpu_seconds": None if resumed else round(seconds, 1),
        **{key: [round(v, 4) for v in table[:, i].tolist()] for i, key in enumerate(names)},
        **{f"{key}_mean": round(float(table[:, i].mean()), 4) for i, key in enumerate(names)},
        **{f"{key}_std": round(float(table[:, i].std()), 4) for i, key in enumerate(names)},
    }


def ratio(name: str, rounds: int = 15, steps: int = 40) -> dict[str, float]:
    """Milliseconds of a step of all splits and of one alone, in turn; and how much the former saves."""
    data = [part for part, _ in splits(name)]
    seeds = list(range(SPLITS))
    models = [network(part, seed) for part, seed in zip(data, seeds, strict=True)]
    likelihoods = [Gaussian() for _ in seeds]
    stacked = StackedBatches(data, likelihoods[0], 64, seeds)
    together = StackedRun([SVI()] * SPLITS, models, likelihoods, stacked.counts, seeds)
    single = TensorBatches(*data[0], Gaussian(), 64, 0)
    alone = SVI().init(network(data[0], 0), Gaussian(), single.n_data)
    times: dict[str, list[float]] = {"together": [], "alone": []}
    for turn in range(rounds):
        for key, run, batches in (("together", together, stacked), ("alone", alone, single)):
            start = time.process_time()  # of one thread: what else runs on the machine does not count
            for step in range(turn * steps, (turn + 1) * steps):
                run.update(*batches.at(step), step)
            times[key].append((time.process_time() - start) / steps * 1e3)
    medians = {key: float(np.median(values)) for key, values in times.items()}
    return {
        "ms_together": round(medians["together"], 3),
        "ms_alone": round(medians["alone"], 3),
        "times_faster": round(SPLITS * medians["alone"] / medians["together"], 2),
    }


def show(record: dict[str, Any]) -> str:
    """The record as a table in Markdown."""
    lines = [
        "| data | RMSE | asked | paper | MNLL | asked | paper | ms a step, 8 splits | 8 runs alone / one run of 8 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in record.items():
        asked, paper = ASKED[name], PAPER[name]
        lines.append(
            f"| {name} | {row['rmse_mean']:.2f} ({row['rmse_std']:.2f}) | {asked[0]:.2f} | {paper[0]:.2f} "
            f"| {row['mnll_mean']:.2f} ({row['mnll_std']:.2f}) | {asked[1]:.2f} | {paper[1]:.2f} "
            f"| {row['ms_together']:.1f} | {row['times_faster']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what was asked for and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ASKED)}; default all")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--table", action="store_true", help="only print the table of the record")
    parser.add_argument("--ratio", action="store_true", help="only measure the times again")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if not options.table:
        torch.set_num_threads(1)
        for name in options.names or ASKED:
            results = record.get(name, {}) if options.ratio else train(name, options.steps)
            record = json.loads(RECORD.read_text()) if RECORD.exists() else {}  # another run may have added to it
            record[name] = {**results, **ratio(name)}
            keep(RECORD, {name: record[name] for name in ASKED if name in record})
    print(show(record))


if __name__ == "__main__":
    main()
