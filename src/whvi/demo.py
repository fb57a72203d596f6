"""What ``whvi demo`` runs: the covariance that one random vector gives a whole weight matrix, and what it costs."""

from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

from whvi.bench.contenders import training_step, transform
from whvi.bench.timing import interleaved
from whvi.ops import chain, draw_seed, kernel_info, noisy_chain

SIZE = 4
"""Side of the weight matrix in the picture: vec(W) then has 16 entries."""
SAMPLES = 200_000


def run(out: Path) -> Path:
    """Sample weights, measure speed, print a table and return the path of the picture in the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    with Progress() as progress:
        task = progress.add_task("sampling and measuring", total=8)
        torch.manual_seed(0)
        law, sampled = exact_covariance(), sampled_covariance()
        progress.advance(task)
        times = {}
        for size in (64, 256, 1024, 2048):
            contenders = transform(512, size)
            times[size] = interleaved({k: contenders[k] for k in ("clone", "whvi", "matmul")}, rounds=9)
            progress.advance(task)
        steps = {}
        for size in (256, 1024, 4096):
            steps[size] = interleaved(training_step(64, size), rounds=5)
            progress.advance(task)
    picture = draw(law, sampled, times, steps, out / "demo.png")
    tell(law, sampled, steps)
    return picture


def parameters() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """s1, mean, log_std, s2 of the weight in the picture."""
    generator = torch.Generator().manual_seed(3)
    s1, mean, log_std, s2 = (torch.randn(SIZE, generator=generator) for _ in range(4))
    return s1, mean, 0.5 * log_std, s2


def exact_covariance() -> Tensor:
    """Covariance of vec(W) for W = S1 H diag(g) H S2: A diag(std^2) A^T, where column i of A is vec(W) at g = e_i."""
    s1, _, log_std, s2 = parameters()
    eye = torch.eye(SIZE)
    columns = torch.stack([chain(eye, s1, unit, s2).reshape(-1) for unit in eye], 1)
    return columns * (2 * log_std).exp() @ columns.T


def sampled_covariance() -> Tensor:
    """The same from draws made inside the kernel: row i of a sample is column i of W, all rows under one draw."""
    s1, mean, log_std, s2 = parameters()
    eye = torch.eye(SIZE).expand(SAMPLES, SIZE, SIZE)
    weights = noisy_chain(eye, s1, mean, log_std, s2, draw_seed(), noise_shape=(SAMPLES, 1)).reshape(SAMPLES, -1)
    return weights.T.cov()


def tell(law: Tensor, sampled: Tensor, steps: dict[int, dict[str, float]]) -> None:
    """The short table at the end."""
    table = Table(title="training step (forward + backward), batch 64, against nn.Linear(D, D)")
    for head in ("D", "parameters dense", "parameters chain", "nn.Linear", "chain", "chain with noise"):
        table.add_column(head, justify="right")
    for size, seconds in steps.items():
        base = seconds["nn.Linear"]
        table.add_row(
            str(size),
            f"{size * size:,}",
            f"{4 * size:,}",
            f"{base * 1e3:.2f} ms",
            f"{seconds['chain'] / base:.3f} x",
            f"{seconds['chain + noise'] / base:.3f} x",
        )
    info = kernel_info()
    console = Console()
    console.print(table)
    console.print(f"kernel: {info.backend} {info.isa or ''}; {info.reason}", highlight=False)
    worst = float((law - sampled).abs().max() / law.abs().max())
    console.print(
        f"covariance of vec(W), sampled against exact: largest difference {worst:.2%} of the largest entry",
        highlight=False,
    )


def draw(law: Tensor, sampled: Tensor, times: dict[int, Any], steps: dict[int, Any], path: Path) -> Path:
    """Two covariances, the transform against D, the training step against D."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.8), layout="constrained")
    first, second, third, fourth = figure.subplots(1, 4, width_ratios=(1, 1, 1.25, 1.25))
    for axis, matrix, title in ((first, law, "corr vec(W), exact"), (second, sampled, f"from {SAMPLES:,} draws")):
        std = matrix.diagonal().sqrt()
        image = axis.imshow((matrix / std / std[:, None]).numpy(), cmap="RdBu_r", vmin=-1, vmax=1)
        axis.set(title=title, xticks=[], yticks=[])
    figure.colorbar(image, ax=[first, second], shrink=0.7)
    for name, label, colour in (("matmul", "x @ H", "C3"), ("whvi", "whvi.fwht", "C0"), ("clone", "x.clone()", "0.6")):
        third.loglog(list(times), [t[name] * 1e6 for t in times.values()], "o-", color=colour, label=label)
    third.set(title="transform, batch 512", xlabel="D", ylabel="microseconds")
    for name, colour in (("nn.Linear", "C3"), ("chain + noise", "C9"), ("chain", "C0")):
        fourth.loglog(list(steps), [t[name] * 1e3 for t in steps.values()], "o-", color=colour, label=name)
    fourth.set(title="forward + backward, batch 64", xlabel="D", ylabel="milliseconds")
    for axis, sizes in ((third, times), (fourth, steps)):
        axis.set_xticks(list(sizes), [str(size) for size in sizes])
        axis.xaxis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=130)
    return path
