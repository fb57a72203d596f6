"""What ``whvi demo`` runs: a Bayesian network on generated data, the law of its weights, and what its layers cost."""

from math import cos, pi
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

import whvi
from whvi.bench.contenders import layer_step
from whvi.bench.timing import interleaved
from whvi.inference import SVI, Fit
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.ops import kernel_info
from whvi.predictive import Prediction
from whvi.predictive.plots import plot_bands

STEPS = 2000
FUNCTIONS = 400
SIZES = (256, 1024, 4096)
LEVELS = (0.95, 0.75)


def network(width: int = 128) -> nn.Module:
    """The paper's network for one input: WHVI, WHVI, mean field; with the variance of the noise 1541 parameters."""
    return nn.Sequential(
        WHVILinear(1, width), nn.ReLU(), WHVILinear(width, width), nn.ReLU(), MeanFieldLinear(width, 1)
    )


def data(count: int = 300) -> tuple[Tensor, Tensor]:
    """Noisy points on a wave, none in the middle: (count, 1) each."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, 1, generator=generator) * 2.4 - 2.0
    x = torch.where(x > -0.8, x + 1.2, x)
    return x, torch.sin(2.5 * x) + 0.15 * torch.randn(count, 1, generator=generator)


def train(model: nn.Module, likelihood: Gaussian, x: Tensor, y: Tensor, steps: int) -> Fit:
    """Maximise the evidence lower bound."""
    algorithm = SVI(1e-2, schedule=lambda step: 0.5 + 0.5 * cos(pi * step / steps))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a network this small is faster so
    try:
        return whvi.fit(model, likelihood, (x, y), steps=steps, algorithm=algorithm, batch_size=len(x), progress=True)
    finally:
        torch.set_num_threads(threads)


def run(out: Path, steps: int = STEPS) -> Path:
    """Train, measure, print a table and return the path of the picture in the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, likelihood, (x, y) = network(), Gaussian(), data()
    bound = train(model, likelihood, x, y, steps).history.elbo[-1]
    grid = torch.linspace(-3.0, 3.0, 240).unsqueeze(-1)
    prediction = whvi.predict(model, grid, FUNCTIONS, likelihood=likelihood, seed=0)
    costs = {
        size: interleaved(layer_step(64, size), rounds=7, slice_ms=20.0)
        for size in track(SIZES, description="measuring")
    }
    picture = draw(prediction, (x, y), grid, costs, out / "demo.png")
    tell(model, likelihood, bound, costs)
    return picture


def tell(model: nn.Module, likelihood: Gaussian, bound: float, costs: dict[int, dict[str, float]]) -> None:
    """The short table at the end."""
    table = Table(title="training step with noise and KL, batch 64")
    for head in ("D", "parameters dense", "parameters WHVI", "nn.Linear", "WHVILinear"):
        table.add_column(head, justify="right")
    for size, seconds in costs.items():
        base, ours = seconds["nn.Linear"], seconds["WHVILinear"]
        count = sum(p.numel() for p in WHVILinear(size, size, device="meta").parameters())
        table.add_row(str(size), f"{size * (size + 1):,}", f"{count:,}", f"{base * 1e3:.2f} ms", f"{ours / base:.3f} x")
    info, console = kernel_info(), Console()
    console.print(table)
    count = sum(p.numel() for module in (model, likelihood) for p in module.parameters())
    console.print(
        f"network 1 - 128 - 128 - 1: {count:,} parameters, ELBO {bound:.1f} nats, "
        f"noise {likelihood.noise:.3f} (0.150 in the data)\n"
        f"kernel: {info.backend} {info.isa or ''}; {info.reason}",
        highlight=False,
    )


def draw(
    prediction: Prediction,
    points: tuple[Tensor, Tensor],
    grid: Tensor,
    costs: dict[int, dict[str, float]],
    path: Path,
) -> Path:
    """Predictions with their bands, the correlations of a weight matrix, the cost of a layer against D."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.2), layout="constrained")
    first, second, third = figure.subplots(1, 3, width_ratios=(1.7, 1, 1.1))
    bands = {level: prediction.interval(level) for level in LEVELS}
    plot_bands(grid, prediction.mean, bands, data=points, functions=prediction.samples(6), axis=first)
    first.set(title="Bayesian network with 1,541 parameters", xlabel="x", ylim=(-4, 4))
    layer = WHVILinear(8, 8)
    nn.init.normal_(layer.g.get_parameter("log_std"), std=0.5)
    covariance = layer.weight_distribution().covariance.detach()
    std = covariance.diagonal().sqrt()
    image = second.imshow((covariance / std / std[:, None]).numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
    second.set(title="correlations of an 8 x 8 weight", xticks=[], yticks=[])
    figure.colorbar(image, ax=second, shrink=0.7)
    for name, colour in (("nn.Linear", "C3"), ("WHVILinear", "C0")):
        third.loglog(list(costs), [t[name] * 1e3 for t in costs.values()], "o-", color=colour, label=name)
    third.set(title="training step, batch 64", xlabel="D", ylabel="milliseconds")
    third.set_xticks(list(costs), [str(size) for size in costs])
    third.xaxis.minorticks_off()
    third.grid(alpha=0.3)
    third.legend(loc="best")
    figure.savefig(path, dpi=120)
    return path
