"""What training 8 networks at once saves: ``python benchmarks/replicas.py [--rounds R] [--table]``.

A step of 8 replicas of the paper's regression network (2 hidden layers of 128 units, batches of 64) and a step of one
such network alone, in turn, on one thread, in CPU time. Writes ``results/bench/replicas.json``; ``--table`` prints it.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whvi.inference import Run
from whvi.inference.batches import Batches, StackedBatches, TensorBatches
from whvi.inference.replicas import StackedRun
from whvi.inference.stacked_kfac import StackedKFACRun
from whvi.likelihoods import Gaussian
from whvi_paper.networks import network
from whvi_paper.recipe import algorithm, configuration

RECORD = Path(__file__).parent.parent / "results/bench/replicas.json"
METHODS = {"whvi": "WHVI", "mcd": "MC dropout", "mfg": "mean field", "nng": "noisy K-FAC"}
REPLICAS, ROWS, FEATURES, STEPS = 8, 1000, 8, 20


def runs(method: str, data: tuple[Tensor, Tensor]) -> dict[str, tuple[Run, Batches]]:
    """All replicas together, and one alone: the run of each and where its batches come from."""
    settings = algorithm(method, configuration(method, "regression"), 50_500)
    seeds = list(range(REPLICAS))
    models = [network(method, FEATURES, 1, 2, 128) for _ in range(REPLICAS + 1)]
    likelihoods = [Gaussian() for _ in models]
    stacked = StackedBatches([data] * REPLICAS, likelihoods[0], 64, seeds)
    single = TensorBatches(*data, likelihoods[-1], 64, 0)
    kind = StackedKFACRun if method == "nng" else StackedRun
    together = kind([settings] * REPLICAS, models[:-1], likelihoods[:-1], stacked.counts, seeds)
    return {
        "together": (together, stacked),
        "alone": (settings.init(models[-1], likelihoods[-1], ROWS), single),
    }


def measure(rounds: int) -> dict[str, Any]:
    """Milliseconds of a step, medians over rounds."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = torch.randn(ROWS, FEATURES), torch.randn(ROWS, 1)
    record = {}
    for method in METHODS:
        contenders = runs(method, data)
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(rounds):
            for name, (run, batches) in contenders.items():
                start = time.process_time()  # of one thread: what else runs on the machine does not count
                for step in range(turn * STEPS, (turn + 1) * STEPS):
                    run.update(*batches.at(step), step)
                times[name].append((time.process_time() - start) / STEPS * 1e3)
        record[method] = {name: round(float(np.median(values)), 3) for name, values in times.items()}
    return record


def table(record: dict[str, Any]) -> str:
    """The record as a table in Markdown."""
    head = "| Method | ms a step, 8 networks at once | ms a step, one alone | 8 alone / 8 at once |"
    lines = [head, "| --- " * 4 + "|"]
    for method, row in record.items():
        saved = REPLICAS * row["alone"] / row["together"]
        lines.append(f"| {METHODS[method]} | {row['together']:.1f} | {row['alone']:.1f} | {saved:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi.bench.record import main

    main(__doc__, RECORD, measure, table)
