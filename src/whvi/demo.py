"""What ``whvi demo`` runs: a Bayesian network on generated data, the law of its weights, and what its layers cost."""

from math import log, pi
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

import whvi
from whvi.bench.contenders import layer_step
from whvi.bench.timing import interleaved
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.ops import kernel_info

STEPS = 2000
FUNCTIONS = 400
SIZES = (256, 1024, 4096)


class Regression(nn.Module):
    """The paper's network for one input: WHVI, WHVI, mean field, and a learned noise variance; 1541 parameters."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            WHVILinear(1, width), nn.ReLU(), WHVILinear(width, width), nn.ReLU(), MeanFieldLinear(width, 1)
        )
        self.log_noise = nn.Parameter(torch.tensor(-1.5))

    def forward(self, x: Tensor) -> Tensor:
        """(N, 1) -> (N, 1)."""
        y: Tensor = self.layers(x)
        return y


def data(count: int = 300) -> tuple[Tensor, Tensor]:
    """Noisy points on a wave, none in the middle: (count, 1) each."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, 1, generator=generator) * 2.4 - 2.0
    x = torch.where(x > -0.8, x + 1.2, x)
    return x, torch.sin(2.5 * x) + 0.15 * torch.randn(count, 1, generator=generator)


def train(model: Regression, x: Tensor, y: Tensor, steps: int) -> float:
    """Maximise the evidence lower bound; returns its mean over the last tenth of the steps, in nats."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    bounds = torch.zeros(steps)
    for step in track(range(steps), description="training"):
        log_likelihood = -0.5 * ((y - model(x)) ** 2 * (-model.log_noise).exp() + model.log_noise + log(2 * pi)).sum()
        bound = log_likelihood - whvi.kl(model)
        optimiser.zero_grad()
        (-bound).backward()
        optimiser.step()
        schedule.step()
        bounds[step] = bound.detach()
    return float(bounds[-max(1, steps // 10) :].mean())


@torch.no_grad()
def functions(model: Regression, grid: Tensor) -> Tensor:
    """Draws of the function at (N, 1) points: (FUNCTIONS, N)."""
    with whvi.sampling(model, FUNCTIONS):
        f: Tensor = model(grid.repeat(FUNCTIONS, 1))
    return f.reshape(FUNCTIONS, len(grid))


def run(out: Path, steps: int = STEPS) -> Path:
    """Train, measure, print a table and return the path of the picture in the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, (x, y) = Regression(), data()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a network this small is faster so
    try:
        bound = train(model, x, y, steps)
    finally:
        torch.set_num_threads(threads)
    grid = torch.linspace(-3.0, 3.0, 240).unsqueeze(-1)
    costs = {
        size: interleaved(layer_step(64, size), rounds=7, slice_ms=20.0)
        for size in track(SIZES, description="measuring")
    }
    picture = draw(model, x, y, grid, functions(model, grid), costs, out / "demo.png")
    tell(model, bound, costs)
    return picture


def tell(model: Regression, bound: float, costs: dict[int, dict[str, float]]) -> None:
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
    console.print(
        f"network 1 - 128 - 128 - 1: {sum(p.numel() for p in model.parameters()):,} parameters, ELBO {bound:.1f} nats, "
        f"noise {float((0.5 * model.log_noise.detach()).exp()):.3f} (0.150 in the data)\n"
        f"kernel: {info.backend} {info.isa or ''}; {info.reason}",
        highlight=False,
    )


def draw(
    model: Regression, x: Tensor, y: Tensor, grid: Tensor, f: Tensor, costs: dict[int, dict[str, float]], path: Path
) -> Path:
    """Predictions with their bands, the correlations of a weight matrix, the cost of a layer against D."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.2), layout="constrained")
    first, second, third = figure.subplots(1, 3, width_ratios=(1.7, 1, 1.1))
    noisy = f + (0.5 * model.log_noise.detach()).exp() * torch.randn(f.shape)
    line = grid[:, 0].numpy()
    for level, alpha in ((0.95, 0.18), (0.75, 0.3)):
        low, high = torch.quantile(noisy, torch.tensor([0.5 - level / 2, 0.5 + level / 2]), dim=0)
        first.fill_between(line, low.numpy(), high.numpy(), color="C0", alpha=alpha, lw=0, label=f"{level:.0%}")
    first.plot(line, f[:6].T.numpy(), color="C0", lw=0.6, alpha=0.7)
    first.plot(line, f.mean(0).numpy(), color="C0", lw=2, label="mean")
    first.plot(x.numpy(), y.numpy(), "k.", ms=3, label="data")
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
    for axis in (first, third):
        axis.grid(alpha=0.3)
        axis.legend(loc="best")
    figure.savefig(path, dpi=120)
    return path
