"""Predictions of a convolutional network, or of its linear maps alone: what they cost under each method."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import whvi
from whvi.likelihoods import Categorical
from whvi_paper import cost
from whvi_paper.bench.suite import machine
from whvi_paper.energy import in_turn
from whvi_paper.jobs import Inputs, Report, Results
from whvi_paper.measured import threads
from whvi_paper.networks import convnet

CLASSES = 10
WHOLE, LINEAR, TEST = "network", "linear maps", "test set"
"""What is measured: all of a network, what comes after its convolutions, or all of it on as many images as test."""


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds, CPU seconds and joules of each method; for the whole network also the memory of a pass."""
    results: list[Results] = []
    for one in inputs:
        with threads(1):
            torch.manual_seed(0)
            parts = {method: part_of(one, method) for method in one["rows"]}
            metrics: dict[str, Any] = {"machine": machine(), "numbers": {}, "bytes": {}}
            for method, (model, x) in parts.items():
                metrics["numbers"][method] = sum(p.numel() for p in model.parameters())
                one_pass = prediction(model, x[: one["memory_rows"]], one["samples"], one["memory_rows"])
                one_pass()  # a warm-up
                if one["part"] == WHOLE:
                    peak = cost.peak(one_pass, folder / "trace.json")
                    metrics["bytes"][method] = sum(tensor.nbytes for tensor in cost.held(model)) + peak
            calls = {method: prediction(*parts[method], one["samples"], rows) for method, rows in one["rows"].items()}
            metrics |= in_turn(calls, one["rounds"])
        results.append({"metrics": metrics})
        report(len(results) / len(inputs))
    return results


def part_of(one: Inputs, method: str) -> tuple[nn.Module, Tensor]:
    """A network and images, or its linear maps and features as a ReLU gives them, all random."""
    network = convnet(one["model"], method, classes=CLASSES).eval()
    images = torch.randn(one["images"], 3, 32, 32).contiguous(memory_format=torch.channels_last)
    if one["part"] != LINEAR:
        return network, images
    start = next(place for place, layer in enumerate(network) if isinstance(layer, nn.Flatten)) + 1
    with torch.no_grad():
        width = network[:start](images[:1]).shape[1]
    return network[start:], torch.randn(len(images), width).relu()


def prediction(model: nn.Module, x: Tensor, samples: int, rows: int) -> Callable[[], object]:
    """Class probabilities of all of x, from so many functions, with so many rows in a pass."""
    likelihood = Categorical(CLASSES)
    return lambda: whvi.predict(model, x, samples, likelihood=likelihood, batch_rows=rows, seed=0).mean
