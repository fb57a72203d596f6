"""Simulation-based calibration of ``whvi.fit``: ``python benchmarks/sbc.py``.

A WHVI layer with fixed scales is linear in g, so that its posterior is Gaussian and a full Gaussian can be exact; one
with a diagonal covariance cannot, and the test should see it. For each of 1,000 replications g is drawn from its prior,
targets from the layer, and g is inferred from them by stochastic variational inference, all replications as replicas of
one run. Writes ``results/bench/sbc.json`` and ``docs/sbc.png``.
"""

import json
import time
from pathlib import Path

import torch
from torch import Tensor

from whvi.inference import SVI, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.testing.simulation import Uniformity, calibrate, uniformity
from whvi_paper.bench.record import keep

ROOT = Path(__file__).parent.parent
REPLICATIONS, DRAWS, ROWS, SIZE, NOISE = 1000, 99, 8, 4, 0.5
FUNCTIONALS = ("g1", "g2", "g3", "g4", "|g|^2")


def layer(posterior: str) -> WHVILinear:
    """The same scales each time; they belong to the model, not to what is inferred."""
    torch.manual_seed(0)
    made = WHVILinear(SIZE, 1, bias=False, posterior=posterior)
    for scale in made.scales.parameters():
        scale.requires_grad_(False)
    with torch.no_grad():
        made.g.mean.zero_()  # no draw of it may depend on the truth
    return made


def simulate(seed: int, rows: int = ROWS) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """g from its prior, and targets from the layer with that g."""
    generator = torch.Generator().manual_seed(seed)
    model, g = layer("diagonal"), torch.randn(SIZE, generator=generator)
    x = torch.randn(rows, SIZE, generator=generator) * torch.tensor([2.0, 1.0, 0.5, 0.5])
    with torch.no_grad():
        f = model.matrix(None).apply(g, x)
    return functionals(g), (x, f + NOISE**0.5 * torch.randn(rows, 1, generator=generator))


def functionals(g: Tensor) -> Tensor:
    """What is ranked: (..., 4) -> (..., 5)."""
    return torch.cat([g, g.square().sum(-1, keepdim=True)], -1)


def fitted(data: list[tuple[Tensor, Tensor]], posterior: str, steps: int = 700) -> list[WHVILinear]:
    """A layer for each dataset, all trained at once."""
    models = [layer(posterior) for _ in data]
    likelihoods = [Gaussian(variance=NOISE, learned=False) for _ in data]
    settings = SVI(0.1, schedule=lambda step: 0.993**step, samples=2)
    fit_replicas(models, likelihoods, data, steps=steps, algorithm=settings, batch_size=ROWS)
    return models


def infer(data: list[tuple[Tensor, Tensor]], posterior: str) -> Tensor:
    """Draws of g for each dataset: (R, DRAWS, 5)."""
    models = fitted(data, posterior)
    with torch.no_grad():
        return functionals(torch.stack([m.g.rsample((DRAWS,), seed=torch.tensor(r)) for r, m in enumerate(models)]))


def run(posterior: str, replications: int = REPLICATIONS) -> Uniformity:
    """The test of one posterior."""
    found, draws = calibrate(replications, simulate, lambda data: infer(data, posterior))
    return uniformity(found, draws)


def draw(results: dict[str, Uniformity], path: Path) -> None:
    """Histograms of ranks, with the band that 99 % of uniform ones stay in."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    axes = figure.subplots(len(results), len(FUNCTIONALS), sharex=True, sharey="row", squeeze=False)
    for row, (name, result) in zip(axes, results.items(), strict=True):
        bins = result.counts.shape[0]
        expected = REPLICATIONS / bins
        width = 2.58 * (expected * (1 - 1 / bins)) ** 0.5
        for column, (axis, functional) in enumerate(zip(row, FUNCTIONALS, strict=True)):
            axis.bar(range(bins), result.counts[:, column].tolist(), width=0.9, color="C0")
            axis.axhspan(expected - width, expected + width, color="k", alpha=0.12, lw=0)
            axis.axhline(expected, color="k", lw=0.8)
            axis.set_title(f"{functional}: p = {float(result.p_value[column]):.2g}", fontsize=10)
            axis.set_xticks([])
        row[0].set_ylabel(f"{name} covariance")
    figure.supxlabel("rank of the truth among 99 draws of the posterior, in 20 bins")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Both posteriors, the record and the picture."""
    torch.set_num_threads(1)
    start = time.process_time()
    results = {name: run(name) for name in ("full", "diagonal")}
    record = {
        "replications": REPLICATIONS,
        "draws": DRAWS,
        "cpu_seconds": round(time.process_time() - start, 1),
        **{
            name: {
                "p_value": dict(zip(FUNCTIONALS, [float(f"{p:.4g}") for p in result.p_value.tolist()], strict=True)),
                "counts": result.counts.mT.tolist(),
            }
            for name, result in results.items()
        },
    }
    keep(ROOT / "results/bench/sbc.json", record)
    draw(results, ROOT / "docs/sbc.png")
    print(json.dumps({name: record[name]["p_value"] for name in results}, indent=1))


if __name__ == "__main__":
    main()
