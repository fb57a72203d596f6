"""Sets the ratios of a benchmark record beside their targets: ``python benchmarks/targets.py [bench.json]``."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def ratio(row: Row, name: str, unit: str) -> float:
    """Time of one contender in units of another."""
    return float(row["seconds"][name] / row["seconds"][unit])


def worst(rows: Iterable[Row], name: str, unit: str) -> tuple[float, str]:
    """The largest ratio among rows, and where it was."""
    value, row = max(((ratio(row, name, unit), row) for row in rows), key=lambda pair: pair[0])
    return value, f"D = {row['size']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"


def table(record: Row) -> str:
    """A Markdown table: the target, what was measured in the worst case, and where."""
    transform, steps = record["transform"], record["step"]
    lines: list[tuple[str, str, float, str, bool]] = []

    def at_most(what: str, limit: float, measured: tuple[float, str]) -> None:
        lines.append((what, f"<= {limit:g}", *measured, measured[0] <= limit))

    def at_least(what: str, limit: float, measured: tuple[float, str]) -> None:
        lines.append((what, f">= {limit:g}", *measured, measured[0] >= limit))

    for batch, limit in ((512, 2.0), (64, 2.5)):
        rows = [row for row in transform if row["batch"] == batch and row["size"] >= 16]
        at_most(f"transform / clone, batch {batch}, D = 16 ... 16384", limit, worst(rows, "whvi", "clone"))
    at_most("transform / clone, D < 16", 3.0, worst([row for row in transform if row["size"] < 16], "whvi", "clone"))
    dense = [row for row in transform if "matmul" in row["seconds"] and row["batch"] == 512]
    for size, limit in ((32, 1.0), (256, 8.0), (1024, 25.0)):
        rows = [row for row in dense if (row["size"] >= 32 if size == 32 else row["size"] == size)]
        value, where = worst(rows, "whvi", "matmul")
        at_least(f"x @ H / transform, batch 512, D {'>=' if size == 32 else '='} {size}", limit, (1 / value, where))
    for batch, size, limit in ((64, 128, 0.8), (64, 512, 0.3), (64, 4096, 0.025), (512, 1024, 0.07)):
        rows = [row for row in steps if (row["batch"], row["size"]) == (batch, size)]
        at_most(f"chain / nn.Linear, forward + backward, {batch} x {size}", limit, worst(rows, "chain", "nn.Linear"))
    value, where = worst([row for row in steps if row["batch"] == 512], "chain", "separate")
    at_least("separate operators / chain, batch 512, D >= 64", 2.0, (1 / value, where))
    rows = [row for row in steps if (row["batch"], row["size"]) == (64, 4096)]
    at_most("chain with noise / chain, 64 x 4096", 1.6, worst(rows, "chain + noise", "chain"))
    noise = record["noise"][0]
    at_most("nanoseconds per normal", 1.0, (noise["seconds"]["whvi.ops.normal"] / noise["size"] * 1e9, "1 thread"))
    at_least("torch.randn / whvi.ops.normal", 4.0, (1 / ratio(noise, "whvi.ops.normal", "torch.randn"), "1 thread"))
    at_most("exponent of D, 2^6 ... 2^20", 1.15, (record["exponent"], "1 thread"))
    head = "| What | Target | Measured, worst case | Where | Met |\n| --- | --- | --- | --- | --- |\n"
    body = (f"| {w} | {a} | {m:.3g} | {where} | {'yes' if met else 'no'} |" for w, a, m, where, met in lines)
    return head + "\n".join(body)


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "results/bench/bench.json"
    print(table(json.loads(path.read_text())))
