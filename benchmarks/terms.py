"""A training step of a weight that is a sum, against the weight of one term: ``python benchmarks/terms.py [--table]``.

Forward, backward, noise and KL of ``WHVILinear(4096, 4096)``, batch 64, float32, one thread. Time is the median over
rounds of the ratio of CPU times of layers that run in turn; memory is the peak of what torch allocates in a step, by
its profiler, parameters and input not counted. Writes ``results/bench/terms.json``; ``--table`` prints the record.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import whvi
from whvi.nn import WHVILinear
from whvi_paper.bench.suite import machine

RECORD = Path(__file__).parent.parent / "results/bench/terms.json"
BATCH, SIZE = 64, 4096
LAYERS: dict[str, dict[str, Any]] = {
    "T = 1": {},
    "T = 2": {"terms": 2},
    "T = 4": {"terms": 4},
    "grid of side 2048": {"layout": "grid", "block": 2048},
    "grid of side 256": {"layout": "grid", "block": 256},
}
KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Otherwise glibc decides by what ran before whether a tensor's pages are new, which can cost more than a layer."""
TIME = 3.2


def step(layer: nn.Module) -> Callable[[], None]:
    """Forward and backward with noise and KL."""
    x = torch.randn(BATCH, SIZE)

    def run() -> None:
        for parameter in layer.parameters():
            parameter.grad = None
        (layer(x).square().sum() + whvi.kl(layer)).backward()

    return run


def peak(run: Callable[[], None]) -> int:
    """Bytes that torch holds at most during a step, beyond those at its start."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    held = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def seconds(run: Callable[[], None]) -> float:
    """CPU time of four steps."""
    start = time.process_time()
    for _ in range(4):
        run()
    return time.process_time() - start


def measure(rounds: int) -> dict[str, Any]:
    """A row for each layer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = {name: WHVILinear(SIZE, SIZE, **options) for name, options in LAYERS.items()}
    runs = {name: step(layer) for name, layer in layers.items()}
    times = [{name: seconds(run) for name, run in runs.items()} for _ in range(rounds)]
    rows = [
        {
            "layer": name,
            "parameters": sum(p.numel() for p in layer.parameters()),
            "milliseconds": round(1000 / 4 * median(found[name] for found in times), 2),
            "time": round(median(found[name] / found["T = 1"] for found in times), 2),
            "peak": peak(runs[name]),
        }
        for name, layer in layers.items()
    ]
    return {"machine": machine(), "rows": rows}


def table(record: dict[str, Any]) -> str:
    """The record, to be read."""
    lines = ["| Layer | Parameters | Step (ms) | Time / T = 1 | Peak memory (MB) |", "| --- | --- | --- | --- | --- |"]
    for row in record["rows"]:
        memory = f"{row['peak'] / 2**20:.2f}"
        lines.append(f"| {row['layer']} | {row['parameters']:,} | {row['milliseconds']} | {row['time']} | {memory} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and record, or print the table of the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        if os.environ.keys().isdisjoint(KEEP_PAGES):
            os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_PAGES})
        arguments.out.write_text(json.dumps(measure(arguments.rounds), indent=1) + "\n")
    print(table(json.loads(arguments.out.read_text())))


if __name__ == "__main__":
    main()
