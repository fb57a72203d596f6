"""Wide 3 x 3 convolutions after Winograd against torch's own: ``python benchmarks/convolution.py [--table]``.

Those of the paper's networks with stride 1 and 64 channels or more, 256 images of CIFAR-10's size, float32, channels
last, one thread: a pass, and a pass with the gradients by input and filter. They run in turn in one process; the ratio
is that of the medians. Writes ``results/bench/convolution.json``; ``--table`` only prints the table of that record.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from whvi.nn import winograd

RECORD = Path(__file__).parent.parent / "results/bench/convolution.json"
IMAGES = 256
SHAPES = [
    (64, 64, 32), (128, 128, 16), (64, 192, 8), (256, 256, 8), (192, 384, 4), (384, 256, 4), (512, 512, 4),
    (64, 64, 2), (512, 512, 2),
]  # fmt: skip
"""Channels of input and output, and side."""
USED = {(False, False): "no", (False, True): "with gradients", (True, True): "yes"}


def runs(inputs: int, outputs: int, side: int) -> dict[str, Callable[[], object]]:
    """A pass and a step of each."""
    x = torch.randn(IMAGES, inputs, side, side).to(memory_format=torch.channels_last).requires_grad_()
    weight = (torch.randn(outputs, inputs, 3, 3) / (3 * inputs**0.5)).to(memory_format=torch.channels_last)
    weight.requires_grad_()
    grad = torch.randn(IMAGES, outputs, side, side).to(memory_format=torch.channels_last)
    ways: dict[str, Callable[[], Tensor]] = {
        "torch": lambda: conv2d(x, weight, padding=1), "winograd": lambda: winograd.convolve(x, weight)
    }  # fmt: skip

    def only(way: Callable[[], Tensor]) -> Callable[[], object]:
        return torch.no_grad()(way)

    def both(way: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(way(), (x, weight), grad)

    return {
        f"{name} {kind}": make(way) for name, way in ways.items() for kind, make in (("pass", only), ("step", both))
    }


def measure(rounds: int) -> dict[str, Any]:
    """Median seconds of every shape."""
    from whvi.bench.suite import machine
    from whvi.bench.timing import interleaved

    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = [{"shape": shape, "seconds": interleaved(runs(*shape), rounds=rounds, slice_ms=1.0)} for shape in SHAPES]
    return {"machine": machine(), "images": IMAGES, "runs": found}


def table(record: dict[str, Any]) -> str:
    """The record as a Markdown table: how many times as fast."""
    lines = ["| Channels | Side | Pass | Pass and gradients | Used |", "| --- | --- | --- | --- | --- |"]
    for run in record["runs"]:
        inputs, outputs, side = run["shape"]
        ratios = [
            f"{run['seconds'][f'torch {kind}'] / run['seconds'][f'winograd {kind}']:.2g}" for kind in ("pass", "step")
        ]
        x, weight = torch.empty(IMAGES, inputs, side, side), torch.empty(outputs, inputs, 3, 3)
        used = [winograd.pays(x, weight.requires_grad_(gradients)) for gradients in (False, True)]
        lines.append(f"| {inputs} to {outputs} | {side} | {' | '.join(ratios)} | {USED[tuple(used)]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi.bench.record import main

    main(__doc__, RECORD, measure, table)
