"""What training 8 networks at once saves: ``python benchmarks/replicas.py [--rounds R] [--table]``.

A step of 8 replicas of the paper's regression network (2 hidden layers of 128 units, batches of 64), the same compiled,
and a step of one such network alone, in turn, on one thread, in CPU time. Writes ``results/bench/replicas.json``;
``--table`` prints it.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whvi.inference import Algorithm, Run
from whvi.inference.batches import Batches, StackedBatches, TensorBatches
from whvi.inference.replicas import Replicas
from whvi.likelihoods import Gaussian
from whvi_paper.networks import network
from whvi_paper.recipe import algorithm, configuration

RECORD = Path(__file__).parent.parent / "results/bench/replicas.json"
METHODS = {"whvi": "WHVI", "mcd": "MC dropout", "mfg": "mean field", "nng": "noisy K-FAC"}
REPLICAS, ROWS, FEATURES, STEPS = 8, 1000, 8, 20


def runs(method: str, data: tuple[Tensor, Tensor]) -> dict[str, tuple[Run, Batches]]:
    """All replicas together, compiled too where that can be, and one alone: each with its batches."""
    settings: Algorithm = algorithm(method, configuration(method, "regression"), 50_500)
    seeds = list(range(REPLICAS))
    stacked = StackedBatches([data] * REPLICAS, Gaussian(), 64, seeds)

    def together(compiled: bool) -> Replicas:
        models = [network(method, FEATURES, 1, 2, 128) for _ in seeds]
        likelihoods = [Gaussian() for _ in seeds]
        return type(settings).init_replicas([settings] * REPLICAS, models, likelihoods, stacked.counts, seeds, compiled)

    likelihood = Gaussian()
    alone = settings.init(network(method, FEATURES, 1, 2, 128), likelihood, ROWS)
    return {
        "together": (together(False), stacked),
        **({} if method == "nng" else {"compiled": (together(True), stacked)}),
        "alone": (alone, TensorBatches(*data, likelihood, 64, 0)),
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
        for run, batches in contenders.values():
            run.update(*batches.at(0), 0)  # what is compiled is so in its first step
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
    head = ("Method", "one alone", "8 at once", "8 at once, compiled", "8 alone / 8 at once", "8 alone / compiled")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for method, row in record.items():
        steps = [row.get(name) for name in ("alone", "together", "compiled")]
        saved = [time and REPLICAS * row["alone"] / time for time in steps[1:]]
        cells = (f"{value:.1f}" if value else "–" for value in (*steps, *saved))
        lines.append(f"| {METHODS[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
