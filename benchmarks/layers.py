"""A training step of Bayesian linear layers against nn.Linear: ``python benchmarks/layers.py [--table]``.

Forward, backward, noise and KL, batch 64, float32, all threads. Each layer runs in turn with nn.Linear, and with it
alone, in one process; the ratio is that of the medians. The memory of one step is that of a fresh process. The rivals
run when they are installed, without what else they ask for: ``pip install --no-deps bayesian-torch torchbnn``.
Writes ``results/bench/layers.json``; ``--table`` only prints the table of that record.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

RECORD = Path(__file__).parent.parent / "results/bench/layers.json"
BATCH = 64
SIZES = (16, 512, 1024, 4096)
"""The first has next to no arithmetic: what is left is the cost of Python and autograd."""
TARGETS = {512: 0.5, 1024: 0.2, 4096: 0.05}
SLICE = 20.0
"""Milliseconds that a layer runs before the next one does: enough to forget the caches that the last one left."""
UNIT, OURS = "nn.Linear", "whvi.nn.WHVILinear"
Forward = Callable[[Tensor], tuple[Tensor, Tensor | None]]


def ours(name: str, size: int) -> tuple[nn.Module, Forward]:
    """A layer of this library, and its output with its KL."""
    import whvi

    layer = getattr(whvi.nn, name)(size, size)
    return layer, lambda x: (layer(x), layer.kl())


def dense(size: int) -> tuple[nn.Module, Forward]:
    """The plain layer."""
    layer = nn.Linear(size, size)
    return layer, lambda x: (layer(x), None)


def bayesian_torch(name: str, size: int) -> tuple[nn.Module, Forward]:
    """A layer of bayesian-torch, which returns its KL with its output."""
    from bayesian_torch.layers import flipout_layers, variational_layers

    layer = getattr(flipout_layers if "Flipout" in name else variational_layers, name)(size, size)
    return layer, layer


def torchbnn(size: int) -> tuple[nn.Module, Forward]:
    """The linear layer of torchbnn, and its KL."""
    from torchbnn.functional import bayesian_kl_loss
    from torchbnn.modules import BayesLinear

    layer = BayesLinear(0.0, 1.0, size, size)
    return layer, lambda x: (layer(x), bayesian_kl_loss(layer, reduction="sum"))


LAYERS: dict[str, Callable[[int], tuple[nn.Module, Forward]]] = {
    UNIT: dense,
    OURS: lambda size: ours("WHVILinear", size),
    "whvi.nn.MeanFieldLinear": lambda size: ours("MeanFieldLinear", size),
}
if importlib.util.find_spec("bayesian_torch"):
    LAYERS["bayesian_torch reparameterisation"] = lambda size: bayesian_torch("LinearReparameterization", size)
    LAYERS["bayesian_torch flipout"] = lambda size: bayesian_torch("LinearFlipout", size)
if importlib.util.find_spec("torchbnn"):
    LAYERS["torchbnn"] = torchbnn


def step(layer: nn.Module, forward: Forward, size: int) -> Callable[[], None]:
    """One training step without the optimizer."""
    x, dy = torch.randn(BATCH, size, requires_grad=True), torch.randn(BATCH, size)
    leaves = [x, *layer.parameters()]  # listed once, as an optimizer does

    def run() -> None:
        y, kl = forward(x)
        torch.autograd.backward((y,) if kl is None else (y, kl), (dy,) if kl is None else (dy, None))
        for leaf in leaves:
            leaf.grad = None

    return run


def megabytes(name: str, size: int) -> float:
    """Peak memory of parameters, gradients and one step, over that of the imports; in a process of its own."""
    code = (
        "import layers\n"
        "from pathlib import Path\n"
        "def kilobytes(name):\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return int(next(line for line in lines if line.startswith(name)).split()[1])\n"
        f"make = layers.LAYERS[{name!r}]\n"
        "layers.step(*make(8), 8)()\n"  # what a first call loads is not counted
        "Path('/proc/self/clear_refs').write_text('5')\n"  # the peak starts from here
        f"before = kilobytes('VmRSS'); layers.step(*make({size}), {size})()\n"
        "print((kilobytes('VmHWM') - before) / 1024)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return float(done.stdout.split()[-1])


def measure(rounds: int) -> dict[str, Any]:
    """A row for each size and layer: seconds of it and of nn.Linear in turn, parameters and megabytes."""
    from whvi_paper.bench.suite import machine
    from whvi_paper.bench.timing import interleaved

    rows = []
    for size in SIZES:
        for name, make in LAYERS.items():
            layer, forward = make(size)
            runs = {UNIT: step(*LAYERS[UNIT](size), size), name: step(layer, forward, size)}
            row = {
                "size": size,
                "layer": name,
                "seconds": interleaved(runs, rounds=rounds, slice_ms=SLICE),
                "parameters": sum(p.numel() for p in layer.parameters()),
                "megabytes": megabytes(name, size),
            }
            rows.append(row)
            print(f"{size} {name}: {row['seconds'][name] / row['seconds'][UNIT]:.3g}", file=sys.stderr)
    return {"machine": machine(), "batch": BATCH, "rows": rows}


def table(record: dict[str, Any]) -> str:
    """The record as a Markdown table: time in units of nn.Linear, parameters and memory."""
    lines = ["| D | Layer | Time / nn.Linear | Target | Parameters | Memory of a step |", "| --- " * 6 + "|"]
    for row in record["rows"]:
        name, seconds = row["layer"], row["seconds"]
        target = f"<= {TARGETS[row['size']]:g}" if name == OURS and row["size"] in TARGETS else ""
        lines.append(
            f"| {row['size']} | {name} | {seconds[name] / seconds[UNIT]:.3g} | {target} "
            f"| {row['parameters']:,} | {row['megabytes']:.1f} MB |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
