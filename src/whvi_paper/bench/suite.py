"""The benchmark: measures, tells, draws and stores."""

import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import whvi
from whvi.ops import kernel_info
from whvi_paper.bench import contenders
from whvi_paper.bench.plot import draw
from whvi_paper.bench.record import keep
from whvi_paper.bench.timing import interleaved

Row = dict[str, Any]
KINDS = {
    "transform": contenders.transform,
    "step": contenders.training_step,
    "noise": contenders.noise,
    "growth": contenders.one_transform,
}
NUMBERS = 1 << 20
"""Normals per call of the noise benchmark."""


def run(quick: bool, out: Path) -> None:
    """Measure everything, print the tables, and leave ``bench.json`` and ``bench.png`` in the folder ``out``."""
    import matplotlib.figure  # noqa: F401  (for the picture; said before anything is measured, if it is not there)

    out.mkdir(parents=True, exist_ok=True)
    threads = torch.get_num_threads()
    try:
        results = measure(quick)
    finally:
        torch.set_num_threads(threads)
    keep(out / "bench.json", results)
    show(results)
    picture = draw(results, out / "bench.png")
    Console().print(f"records: {out / 'bench.json'}\npicture: {picture}", highlight=False)


def machine() -> Row:
    """What the numbers were measured on."""
    return {
        "whvi": whvi.__version__,
        **{k: v for k, v in asdict(kernel_info()).items() if k not in ("library", "threads", "reason")},
        "python": platform.python_version(),
        "processor": processor(),
        "cores": torch.get_num_threads(),
    }


def processor() -> str:
    """The name of the processor, as the system gives it."""
    path = Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in path.read_text().splitlines() if "model name" in line]
        if path.exists()
        else []
    )
    return names[0] if names else platform.processor()


def measure(quick: bool) -> Row:
    """All rows: each holds its setting and the median seconds of every contender."""
    rounds = 7 if quick else 21
    logs = (4, 8, 10, 12) if quick else range(15)
    counts = sorted({1, torch.get_num_threads()})
    steps = [(64, 128), (64, 512), (64, 4096), (512, 64), (512, 256), (512, 1024), (512, 4096)]
    jobs = (
        [("transform", t, b, 1 << k) for t in counts for b in (64, 512) for k in logs]
        + [("step", t, b, d) for t in counts for b, d in (steps[:4] if quick else steps)]
        + [("noise", 1, 1, NUMBERS)]
        + [("growth", 1, max(1, (1 << 20) >> k), 1 << k) for k in (range(6, 21, 4) if quick else range(6, 21))]
    )
    results: Row = {"machine": machine(), "transform": [], "step": [], "noise": [], "growth": []}
    for kind, threads, batch, size in track(jobs, description="measuring"):
        torch.set_num_threads(threads)
        seconds = interleaved(KINDS[kind](batch, size), rounds=rounds)
        row = {"threads": threads, "batch": batch, "size": size, "seconds": seconds}
        results[kind].append(row)
    results["exponent"] = exponent(results["growth"])
    return results


def exponent(rows: list[Row]) -> float:
    """Least-squares slope of log(time per row) against log(D)."""
    sizes = torch.tensor([float(row["size"]) for row in rows], dtype=torch.float64).log()
    times = torch.tensor([row["seconds"]["whvi"] / row["batch"] for row in rows], dtype=torch.float64).log()
    centred = sizes - sizes.mean()
    return float((centred * times).sum() / (centred * centred).sum())


def show(results: Row) -> None:
    """The tables a person reads."""
    console = Console()
    console.print("  ".join(f"{k}={v}" for k, v in results["machine"].items()), style="dim", highlight=False)
    console.print(_table("Transform: time relative to x.clone()", results["transform"], "clone"))
    console.print(_table("Training step: time relative to nn.Linear(D, D)", results["step"], "nn.Linear"))
    for row in results["noise"]:
        for name, seconds in row["seconds"].items():
            console.print(f"{name}: {seconds / row['size'] * 1e9:.2f} ns per number", highlight=False)
    console.print(f"transform, time per row ~ D^{results['exponent']:.2f} from D = 2^6 to 2^20", highlight=False)


def _table(title: str, rows: list[Row], unit: str) -> Table:
    table = Table(title=title)
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"] if name != unit))
    for head in ("threads", "batch", "D", unit, *names):
        table.add_column(head, justify="right")
    for row in rows:
        seconds, base = row["seconds"], row["seconds"][unit]
        cells = [f"{seconds[name] / base:.3g}" if name in seconds else "-" for name in names]
        table.add_row(str(row["threads"]), str(row["batch"]), str(row["size"]), f"{base * 1e6:.1f} us", *cells)
    return table
