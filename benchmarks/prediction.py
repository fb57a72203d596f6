"""A prediction from 64 functions against 64 passes of the dense network: ``python benchmarks/prediction.py [--table]``.

A classifier 64-512-512-10, batch 128, float32, all threads: Walsh-Hadamard layers and a mean-field last layer. Ours is
``whvi.predict``, from the check of x to probabilities and their uncertainty; the dense network and those of others only
make 64 passes without gradients, and nothing of their outputs. All run in turn in one process; the ratio is that of the
medians. The rivals run when they are installed, bayesian-torch and torchbnn without what else they ask for:
``pip install laplace-torch`` and ``pip install --no-deps bayesian-torch torchbnn``.
Writes ``results/bench/prediction.json``; ``--table`` only prints the table of that record.
"""

import importlib.util
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whvi.likelihoods import Categorical
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.predictive import predict

RECORD = Path(__file__).parent.parent / "results/bench/prediction.json"
SIZES, BATCH, SAMPLES = (64, 512, 512, 10), 128, 64
SLICE = 100.0
"""Milliseconds that a contender runs before the next one does."""
UNIT, FUNCTION, EXAMPLE = "nn.Linear, 64 passes", "whvi, a draw for each sample", "whvi, a draw for each example"
TARGETS = {FUNCTION: 0.6, EXAMPLE: 1.2}
Layer = Callable[[int, int], nn.Module]


def network(*layers: Layer) -> nn.Module:
    """Layers of these kinds with ReLU in between; the last kind serves all that follow."""
    parts: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(SIZES)):
        parts += [layers[min(i, len(layers) - 1)](inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1]).eval()


class Output(nn.Module):
    """A layer of bayesian-torch, without its KL."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """The output alone."""
        y: Tensor = self.layer(x, return_kl=False)
        return y


def passes(model: nn.Module, x: Tensor) -> Callable[[], object]:
    """As many passes as there are samples."""

    def run() -> None:
        with torch.no_grad():
            for _ in range(SAMPLES):
                model(x)

    return run


def contenders() -> dict[str, Callable[[], object]]:
    """Each makes one prediction."""
    x, likelihood = torch.randn(BATCH, SIZES[0]), Categorical(SIZES[-1])

    def ours(model: nn.Module, draws: str) -> Callable[[], object]:
        return lambda: predict(model, x, SAMPLES, likelihood=likelihood, draws=draws)

    walsh_hadamard = network(WHVILinear, WHVILinear, MeanFieldLinear)
    runs = {
        UNIT: passes(network(nn.Linear), x),
        FUNCTION: ours(walsh_hadamard, "batch"),
        EXAMPLE: ours(walsh_hadamard, "example"),
        "whvi, mean field, a draw for each sample": ours(network(MeanFieldLinear), "batch"),
        "whvi, MC dropout, a draw for each sample": ours(
            network(nn.Linear, lambda i, o: MCDropout(nn.Linear(i, o))), "batch"
        ),
    }
    if importlib.util.find_spec("bayesian_torch"):
        from bayesian_torch.layers import LinearFlipout, LinearReparameterization

        for name, kind in (("reparameterisation", LinearReparameterization), ("flipout", LinearFlipout)):
            runs[f"bayesian_torch {name}, 64 passes"] = passes(network(lambda i, o, kind=kind: Output(kind(i, o))), x)
    if importlib.util.find_spec("torchbnn"):
        from torchbnn.modules import BayesLinear

        runs["torchbnn, 64 passes"] = passes(network(lambda i, o: BayesLinear(0.0, 0.1, i, o)), x)
    if importlib.util.find_spec("laplace"):
        for weights in ("all", "last_layer"):
            runs[f"laplace-torch, Kronecker, {weights.replace('_', ' ')}, 64 samples"] = laplace(weights, x)
    return runs


def laplace(weights: str, x: Tensor) -> Callable[[], object]:
    """A prediction of laplace-torch from 64 draws of the weights."""
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    found = Laplace(network(nn.Linear), "classification", subset_of_weights=weights, hessian_structure="kron")
    found.fit(DataLoader(TensorDataset(x, torch.randint(SIZES[-1], (BATCH,))), batch_size=BATCH))
    return lambda: found(x, pred_type="nn", link_approx="mc", n_samples=SAMPLES)


def measure(rounds: int) -> dict[str, Any]:
    """Median seconds of every contender."""
    from whvi_paper.bench.suite import machine
    from whvi_paper.bench.timing import interleaved

    torch.manual_seed(0)
    setting = {"sizes": SIZES, "batch": BATCH, "samples": SAMPLES}
    return {"machine": machine(), **setting, "seconds": interleaved(contenders(), rounds=rounds, slice_ms=SLICE)}


def table(record: dict[str, Any]) -> str:
    """The record as a Markdown table: time in units of the dense passes."""
    lines = ["| Prediction | Time / 64 dense passes | Target |", "| --- " * 3 + "|"]
    for name, seconds in record["seconds"].items():
        target = f"<= {TARGETS[name]:g}" if name in TARGETS else ""
        lines.append(f"| {name} | {seconds / record['seconds'][UNIT]:.3g} | {target} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
