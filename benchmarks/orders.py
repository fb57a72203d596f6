"""Transforms of order m 2^k against those of the powers of two around them: ``python benchmarks/orders.py [--table]``.

CPU time of one thread, float32. A number is the median over rounds of the ratio of two contenders that run one after
the other: the transform and ``x.clone()`` for the size and its neighbours; the chain, forward and backward, for the
size and the next power of two; a step of ``WHVILinear`` of the size (forward, backward, noise, KL), one that is padded
and ``nn.Linear``. Writes ``results/bench/orders.json``; ``--layers`` measures the layers alone and keeps the rest of
that record, ``--table`` only prints its tables.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from torch import nn

import whvi
from whvi.nn import WHVILinear
from whvi.ops import chain, fwht, native
from whvi_paper.bench.suite import machine

RECORD = Path(__file__).parent.parent / "results/bench/orders.json"
SIZES = (384, 576, 640, 768, 1536, 3072, 3584)
BATCHES = (64, 512)
LAYERS = (384, 768, 3072)
TARGET = 1.3
Row = dict[str, Any]


def neighbours(size: int) -> tuple[int, int]:
    """The powers of two below and above."""
    above = 1 << size.bit_length()
    return above // 2, above


def ratio(one: Callable[[], object], other: Callable[[], object], rounds: int) -> float:
    """Median of the time of one contender in units of the other, in slices of about two milliseconds."""

    def spent(run: Callable[[], object], count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            run()
        return (time.process_time() - start) / count

    counts = [max(1, int(2e-3 / max(spent(run, 3), 1e-7))) for run in (one, other)]
    return median(spent(one, counts[0]) / spent(other, counts[1]) for _ in range(rounds))


def against_clone(batch: int, size: int, rounds: int) -> float:
    """Time of the transform in units of the clone."""
    x = torch.randn(batch, size)
    return ratio(lambda: fwht(x), x.clone, rounds)


def step(batch: int, size: int) -> Callable[[], object]:
    """Forward and backward of the chain."""
    leaves = [torch.randn(*lead, size, requires_grad=True) for lead in ((batch,), (), (), ())]
    dy = torch.randn(batch, size)
    return lambda: torch.autograd.grad(chain(*leaves), leaves, dy)


def measure(rounds: int) -> Row:
    """A row for each instruction set that this processor has, batch and size; the best set first."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    record: Row = {"machine": machine(), "rows": []}
    best = native.instruction_set()
    for name in ("avx512", "avx2", "generic"):
        if not native.use_instruction_set(name):
            continue
        for batch in BATCHES:
            for size in SIZES:
                near = [against_clone(batch, n, rounds) for n in neighbours(size)]
                own = against_clone(batch, size, rounds)
                padded = ratio(step(batch, size), step(batch, neighbours(size)[1]), rounds)
                row = {"isa": name, "batch": batch, "size": size, "transform": own, "neighbours": near, "chain": padded}
                record["rows"].append(row)
        print(name, "measured", flush=True)
    if best is not None:
        native.use_instruction_set(best)
    return record


def layer_step(layer: nn.Module, batch: int, size: int) -> Callable[[], object]:
    """Forward and backward of a layer, with its noise and KL if it has them."""
    x = torch.randn(batch, size)

    def run() -> None:
        for parameter in layer.parameters():
            parameter.grad = None
        (layer(x).square().sum() + (whvi.kl(layer) if isinstance(layer, WHVILinear) else 0.0)).backward()

    return run


def measure_layers(rounds: int) -> list[Row]:
    """A row for each size of ``LAYERS``: the layer that is not padded, in units of the padded one and of nn.Linear."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = []
    for size in LAYERS:
        own, padded = WHVILinear(size, size), WHVILinear(size, size, pad_to="power_of_two")
        counts = [sum(p.numel() for p in layer.parameters()) for layer in (own, padded)]
        runs = [layer_step(layer, 64, size) for layer in (own, padded, nn.Linear(size, size))]
        ratios = [ratio(runs[0], other, rounds) for other in runs[1:]]
        rows.append({"size": size, "parameters": counts, "padded": ratios[0], "linear": ratios[1]})
    return rows


def against_neighbours(row: Row) -> float:
    """The transform in units of the clone, relative to the mean of the two neighbours."""
    return float(row["transform"] / mean(row["neighbours"]))


def table(record: Row) -> str:
    """Two Markdown tables: sizes with the best instruction set, and the worst size of each set."""
    rows = record["rows"]
    best = [row for row in rows if row["isa"] == rows[0]["isa"]]
    lines = [
        f"| D ({rows[0]['isa']}) | Batch | transform / clone | of the neighbours | ratio | chain / chain of the next power of two |",  # noqa: E501
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in best:
        around = " and ".join(f"{value:.2f}" for value in row["neighbours"])
        lines.append(
            f"| {row['size']} | {row['batch']} | {row['transform']:.2f} | {around} | {against_neighbours(row):.2f} | "
            f"{row['chain']:.2f} |"
        )
    lines += ["", f"| Instruction set | worst ratio (target <= {TARGET}) | Where | Met |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(row["isa"] for row in rows):
        worst = max((row for row in rows if row["isa"] == name), key=against_neighbours)
        value = against_neighbours(worst)
        met = "yes" if value <= TARGET else "no"
        lines.append(f"| {name} | {value:.2f} | D = {worst['size']}, batch {worst['batch']} | {met} |")
    lines += [
        "",
        "| WHVILinear(D, D), batch 64 | Parameters | Padded to a power of two | Time / padded | Time / nn.Linear |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in record["layers"]:
        own, padded = row["parameters"]
        lines.append(f"| {row['size']} | {own:,} | {padded:,} | {row['padded']:.2f} | {row['linear']:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="print the table of the record, measure nothing")
    parser.add_argument("--layers", action="store_true", help="measure the layers alone")
    parser.add_argument("--rounds", type=int, default=41)
    arguments = parser.parse_args()
    if not arguments.table:
        record = json.loads(RECORD.read_text()) if arguments.layers else measure(arguments.rounds)
        record["layers"] = measure_layers(arguments.rounds)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(table(json.loads(RECORD.read_text())))
