"""The picture of the benchmark."""

from pathlib import Path
from typing import Any

COLOURS = {"clone": "0.6", "whvi": "C0", "kronecker": "C2", "matmul": "C3", "loop": "C1"}
LABELS = {
    "clone": "x.clone() (memory)",
    "whvi": "whvi.fwht",
    "kronecker": "two matmuls (Kronecker)",
    "matmul": "x @ H",
    "loop": "loop in torch",
}


def draw(results: dict[str, Any], path: Path) -> Path:
    """Time against D of every way to transform, and the training step against nn.Linear."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rows = [row for row in results["transform"] if row["batch"] == 512 and row["threads"] == 1]
    for name, colour in COLOURS.items():
        points = [(row["size"], row["seconds"][name] * 1e6) for row in rows if name in row["seconds"]]
        left.loglog(*zip(*points, strict=True), "o-", color=colour, label=LABELS[name], base=2, markersize=3)
    left.set_yscale("log", base=10)
    left.set(xlabel="D", ylabel="microseconds", title="Walsh-Hadamard transform, batch 512, float32, one thread")
    left.grid(alpha=0.3)
    left.legend()
    steps = [row for row in results["step"] if row["threads"] == 1]
    names = [f"{row['batch']} x {row['size']}" for row in steps]
    for offset, (name, colour) in enumerate((("separate", "C1"), ("chain + noise", "C9"), ("chain", "C0"))):
        ratios = [row["seconds"][name] / row["seconds"]["nn.Linear"] for row in steps]
        right.barh([i + 0.27 * offset for i in range(len(steps))], ratios, 0.25, color=colour, label=name)
    right.axvline(1, color="0.4", linestyle="--", linewidth=1)
    right.set_yticks([i + 0.27 for i in range(len(steps))], names)
    right.set_xscale("log")
    right.invert_yaxis()
    right.set(xlabel="time / nn.Linear(D, D)", title="Forward + backward, batch x D")
    right.legend(loc="lower right")
    figure.savefig(path, dpi=130)
    return path
