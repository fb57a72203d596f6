"""The time that each special path of ``whvi.ops`` saves: ``python benchmarks/operators.py [--out FILE] [--table]``.

Each path is switched off by putting the general form in its place, in the same process and in turns. A number is the
median over rounds of the CPU time without the path over that with it; below 1.05 the path would have to go.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import whvi
from whvi.inference import fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.ops import local, moments, product, torch_private

RECORD = Path(__file__).parents[1] / "results" / "bench" / "operators.json"


@contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Another value for a name of a module, for the length of a block."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def step(model: nn.Module, width: int) -> Callable[[], object]:
    """A forward and backward pass with noise and KL, batch 64."""
    x = torch.randn(64, width)

    def run() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        (model(x).square().sum() + whvi.kl(model)).backward()

    return run


def network(width: int) -> nn.Module:
    """Two hidden layers."""
    sizes = ((8, width), (width, width), (width, 1))
    return nn.Sequential(*(part for i, o in sizes for part in (WHVILinear(i, o), nn.ReLU())))[:-1]


def replicas() -> None:
    """Twenty steps of eight small networks at once."""
    x = torch.randn(256, 8)
    models = [network(64) for _ in range(8)]
    fit_replicas(models, [Gaussian() for _ in models], [(x, x.sum(1))] * 8, steps=20, **QUIET)


QUIET: dict[str, Any] = {}


def cases() -> list[tuple[str, str, Callable[[], object], Callable[[], Any]]]:
    """Path, what it serves, the work, and the block in which it is switched off."""

    def one_step() -> Any:
        return replaced(product, "_one_step", lambda *_: None)

    def composed() -> Any:
        return replaced(whvi.nn.mean_field, "local_linear", local._composed)

    def in_torch() -> Any:
        return replaced(moments, "watched", lambda: True)

    def vmap_rule() -> Any:
        return replaced(torch_private, "_has_vmap_entry", False)

    return [
        *(
            ("one step for product and bias", f"WHVILinear({w})", step(WHVILinear(w, w), w), one_step)
            for w in (128, 512)
        ),
        *(
            ("one step for mean field", f"MeanFieldLinear({w})", step(MeanFieldLinear(w, w), w), composed)
            for w in (128, 512, 1024)
        ),
        *(
            ("one operator for the KL of short vectors", name, step(model, width), in_torch)
            for name, model, width in (
                ("WHVILinear(128)", WHVILinear(128, 128), 128),
                ("WHVILinear(512)", WHVILinear(512, 512), 512),
                ("two hidden layers of 128", network(128), 8),
            )
        ),
        ("one step for the KL of long vectors", "MeanFieldLinear(512)", step(MeanFieldLinear(512, 512), 512), in_torch),
        ("vmap's rule without torch.func", "8 replicas of 64 units", replicas, vmap_rule),
    ]  # fmt: skip


def measure(rounds: int) -> list[dict[str, Any]]:
    """A row for each case."""
    rows = []
    for path, serves, work, off in cases():

        def seconds(count: int, work: Callable[[], object] = work) -> float:
            start = time.process_time()
            for _ in range(count):
                work()
            return time.process_time() - start

        seconds(2)
        count = max(1, int(0.05 / max(seconds(2) / 2, 1e-6)))
        ratios = []
        for _ in range(rounds):
            with_path = seconds(count)
            with off():
                ratios.append(seconds(count) / with_path)
        rows.append({"path": path, "serves": serves, "ratio": round(statistics.median(ratios), 2)})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and record, or print the table of the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print("| path | serves | time without it |\n|---|---|---|")
        for row in json.loads(RECORD.read_text())["rows"]:
            print(f"| {row['path']} | {row['serves']} | {row['ratio']:.2f}x |")
        return
    torch.set_num_threads(1)
    torch.manual_seed(0)
    record = {"torch": torch.__version__, "kernel": whvi.kernel_info().isa, "rows": measure(arguments.rounds)}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
