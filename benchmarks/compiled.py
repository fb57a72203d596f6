"""A training step as one graph: ``whvi.fit(compile=True)`` against the same step without, and against nn.Linear.

One layer D -> D with a Gaussian likelihood, batches of 64 of 1000 rows: rows, noise, KL, backward pass and Adam, as the
loop of ``whvi.fit`` takes them. nn.Linear has a prior in the place of the KL (``MAP``). All in turn in one process; CPU
time of one thread.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from whvi.inference import MAP, SVI, Run
from whvi.inference.batches import TensorBatches
from whvi.inference.seeds import mix, start_generators
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

RECORD = Path(__file__).resolve().parent.parent / "results" / "bench" / "compiled.json"
SIZES = {"128": 1.0, "512": 0.5}
"""And the target: the largest ratio of WHVI to nn.Linear."""
ROWS, BATCH, STEPS = 1000, 64, 50


def stepper(size: int, bayesian: bool, compiled: bool) -> Callable[[int], None]:
    """One step of a fit, by its number."""
    torch.manual_seed(0)
    likelihood = Gaussian(size)
    batches = TensorBatches(torch.randn(ROWS, size), torch.randn(ROWS, size), likelihood, BATCH, 0)
    algorithm, model = (SVI(), WHVILinear(size, size)) if bayesian else (MAP(), nn.Linear(size, size))
    run: Run = (algorithm.init_compiled if compiled else algorithm.init)(model, likelihood, ROWS)

    def step(number: int) -> None:
        x, y = batches.at(number)
        start_generators(mix(0, "step", number))
        run.update(x, y, number)

    return step


def measure(rounds: int) -> dict[str, Any]:
    """Microseconds of a step, medians over rounds; and the seconds that compiling took."""
    torch.set_num_threads(1)
    record: dict[str, Any] = {}
    for size in SIZES:
        steppers = {
            f"{name}{' compiled' * compiled}": stepper(int(size), name == "whvi", compiled)
            for name in ("whvi", "linear")
            for compiled in (False, True)
        }
        row: dict[str, float] = {}
        for name, step in steppers.items():
            start = time.perf_counter()
            step(0)
            if name == "whvi compiled":
                row["compile seconds"] = round(time.perf_counter() - start, 1)
        times: dict[str, list[float]] = {name: [] for name in steppers}
        for turn in range(rounds):
            for name, step in steppers.items():
                start = time.process_time()  # of one thread: what else runs on the machine does not count
                for number in range(turn * STEPS, (turn + 1) * STEPS):
                    step(number)
                times[name].append((time.process_time() - start) / STEPS * 1e6)
        record[size] = row | {name: round(float(np.median(values)), 1) for name, values in times.items()}
        record[size]["ratio"] = round(float(np.median(np.divide(times["whvi compiled"], times["linear compiled"]))), 3)
    return record


def table(record: dict[str, Any]) -> str:
    """The record as a table in Markdown."""
    head = ("Layer", "WHVI", "WHVI, compiled", "nn.Linear", "nn.Linear, compiled", "WHVI / nn.Linear, compiled")
    head = (*head, "wanted", "break-even")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for size, row in record.items():
        steps = [f"{row[name]:.0f}" for name in ("whvi", "whvi compiled", "linear", "linear compiled")]
        saved = row["compile seconds"] / ((row["whvi"] - row["whvi compiled"]) * 1e-6)
        cells = (f"{size} x {size}", *steps, f"{row['ratio']:.2f}", f"<= {SIZES[size]}", f"{saved:,.0f} steps")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
