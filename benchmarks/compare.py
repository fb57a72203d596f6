"""Compare two checkouts of whvi: ``python benchmarks/compare.py OLD NEW [--rounds 15] [--out compare.json]``.

Each checkout runs in a process of its own, with its kernel built; the two take turns case by case, so what else the
machine does meets both. A number is the median over rounds of new / old, in CPU time of one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

WIDTHS = (16, 128, 512, 1024, 4096)
KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Otherwise glibc decides by what ran before whether a tensor's pages are new, which can cost more than a layer."""


def cases() -> dict[str, Callable[[], object]]:
    """What is measured, by name; only names that both checkouts have are used."""
    import torch
    from torch import nn

    import whvi
    from whvi.inference import SVI, fit_replicas
    from whvi.likelihoods import Gaussian
    from whvi.nn import MeanFieldLinear, WHVIConv2d, WHVILinear
    from whvi.ops import chain, fwht

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def step(layer: nn.Module, x: torch.Tensor) -> Callable[[], object]:
        def run() -> None:
            for parameter in layer.parameters():
                parameter.grad = None
            (layer(x).square().sum() + whvi.kl(layer)).backward()

        return run

    found: dict[str, Callable[[], object]] = {}
    for width in WIDTHS:
        x = torch.randn(64, width)
        vectors = [torch.randn(width) for _ in range(3)]
        found[f"transform {width}"] = lambda x=x: fwht(x)  # type: ignore[misc]
        found[f"chain {width}"] = lambda x=x, v=vectors: chain(x, *v)  # type: ignore[misc]
        found[f"WHVILinear {width}"] = step(WHVILinear(width, width), x)
    layer, x_512 = WHVILinear(512, 512), torch.randn(64, 512)
    found["WHVILinear 512, no gradient"] = torch.no_grad()(lambda: layer(x_512))
    found["MeanFieldLinear 512"] = step(MeanFieldLinear(512, 512), x_512)
    found["WHVIConv2d 64"] = step(WHVIConv2d(64, 64, 3, padding=1), torch.randn(8, 64, 16, 16))

    network = nn.Sequential(WHVILinear(8, 128), nn.ReLU(), WHVILinear(128, 128), nn.ReLU(), WHVILinear(128, 1))
    likelihood, rows = Gaussian(), torch.randn(256, 8)
    found["predict 64 draws"] = lambda: whvi.predict(network, rows, 64, likelihood=likelihood, seed=0).mean
    data = (rows, rows.sum(1))

    def replicas() -> None:
        models = [nn.Sequential(WHVILinear(8, 64), nn.ReLU(), WHVILinear(64, 1)) for _ in range(8)]
        fit_replicas(models, [Gaussian() for _ in models], [data] * 8, steps=20, algorithm=SVI(), progress=False)

    def one() -> None:
        model = nn.Sequential(WHVILinear(8, 64), nn.ReLU(), WHVILinear(64, 1))
        whvi.fit(model, Gaussian(), data, steps=50, progress=False)

    return {**found, "fit_replicas 8 x 64": replicas, "fit 64": one}


def serve() -> None:
    """Read the name of a case and a number of calls, answer with seconds of CPU."""
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    known = cases()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        name, count = json.loads(line)
        start = time.process_time()
        for _ in range(count):
            known[name]()
        print(json.dumps(time.process_time() - start), flush=True)


class Checkout:
    """One checkout, in its process."""

    def __init__(self, path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(path / "src"), "OMP_NUM_THREADS": "1", **KEEP_PAGES}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, cwd=path,
        )  # fmt: skip
        self.cases = json.loads(self._line())

    def seconds(self, name: str, count: int) -> float:
        """CPU seconds of ``count`` calls."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, count]) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self._line()))

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a checkout's process ended; see its error above")
        return line


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    old, new = Checkout(arguments.old.resolve()), Checkout(arguments.new.resolve())
    record = {}
    for name in (name for name in old.cases if name in new.cases and arguments.only in name):
        once = max(old.seconds(name, 3), new.seconds(name, 3)) / 3
        count = max(1, int(0.02 / max(once, 1e-7)))
        pairs = [(old.seconds(name, count), new.seconds(name, count)) for _ in range(arguments.rounds)]
        before, after = (statistics.median(times) / count for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        record[name] = {"old_us": round(before * 1e6, 1), "new_us": round(after * 1e6, 1), "ratio": round(ratio, 3)}
        print(f"{name:32} {before * 1e6:10.1f} {after * 1e6:10.1f} us  x {ratio:.2f}", flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
