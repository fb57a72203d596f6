"""How near S1 H diag(g) H S2 comes to a random matrix: the least root mean square error against D.

The entries of H diag(g) H are (H g)_{i xor j}: with c = H g in place of g, W_ij = s1_i c_{i xor j} s2_j. Given two of
the three vectors, each element of the third is a least squares problem of one number. They are solved in turn.
"""

from collections.abc import Sequence
from math import nan, sqrt
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from whvi_paper.blocks import Entry, Figure, Shown, Table
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.measured import cells, plan
from whvi_paper.store import Record

NAME = "approximation"
TITLE = "Approximation of random matrices by S1 H G H S2"
SOURCE = "Supplement, figure on the minimum RMSE"
PLANS = {
    "recipe": (range(1, 9), {"repetitions": 20, "starts": 32, "steps": 200}),
    "quick": (range(1, 7), {"repetitions": 10, "starts": 8, "steps": 100}),
    "smoke": (range(1, 4), {"repetitions": 2, "starts": 4, "steps": 20}),
}
"""Binary logarithms of D, and how well it is optimised."""
ZERO = 3**-0.5
"""The RMSE of W = 0, on average: the standard deviation of U(-1, 1)."""
TEXT = (
    "The smallest |Γ - S1 H G H S2| / D that was found for Γ with independent entries from U(-1, 1), by "
    "alternating least squares in float64 from {starts} starts. The paper concludes from a bounded value that "
    "the precision does not get worse with D. The value is bounded because W = 0 already has {zero:.3f}: 3 D "
    "numbers cannot fit D² entries, so the minimum rises to that value, and the fraction of the variance that W "
    "explains falls almost like 1 / D. Values above it, such as the outliers that the paper mentions, are not "
    "minima. An error bound, which the paper announces: for every Γ the minimum is at most √(1 - 1 / D) |Γ| / D, "
    "the mean over all signs S1 and S2 with the best g for each."
)


def jobs(profile: str) -> list[Job]:
    """One job for each D; the matrices depend on D and the repetition alone."""
    logs, settings = plan(PLANS, profile)
    common = {**settings, "seed": 0}
    return [
        Job(NAME, f"D = {1 << k}", ({"size": 1 << k, **common},), measure, cost=0.1 + 10.0 * 4.0 ** (k - 8))
        for k in logs
    ]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """The least RMSE of each repetition, and the RMSE of W = 0."""
    results: list[Results] = []
    for one in inputs:
        generator = torch.Generator().manual_seed(one["seed"])
        rmse, zero = [], []
        for repetition in range(one["repetitions"]):
            target = 2.0 * torch.rand(one["size"], one["size"], generator=generator, dtype=torch.float64) - 1.0
            rmse.append(round(least_rmse(target, one["starts"], one["steps"], generator), 6))
            zero.append(round(float(target.square().mean().sqrt()), 6))
            report((len(results) + (repetition + 1) / one["repetitions"]) / len(inputs))
        results.append({"metrics": {"rmse": rmse, "zero": zero}})
    return results


def least_rmse(target: Tensor, starts: int, steps: int, generator: torch.Generator) -> float:
    """The smallest |target - W|_F / D that so many steps find from so many random starts.

    Law: at most |target|_F / D, the error of W = 0; 0 for a target of the form of W, up to rounding.

    Shapes: (D, D) -> ().
    """
    s1, c, s2 = torch.randn(3, starts, len(target), generator=generator, dtype=target.dtype)
    index = torch.arange(len(target))
    other = index[:, None] ^ index
    turned = target.gather(1, other)  # (i, k): the entry of row i that c_k takes part in
    for _ in range(steps):
        s1 = _solve(target, c[:, other] * s2[:, None, :], -1)
        s2 = _solve(target, c[:, other] * s1[:, :, None], -2)
        c = _solve(turned, s1[:, :, None] * s2[:, other], -2)
    left = target - s1[:, :, None] * c[:, other] * s2[:, None, :]
    return float(left.square().mean((-2, -1)).min().sqrt())


def bound(rms: float, size: int) -> float:
    """What the least RMSE cannot exceed, for any target whose entries have that root mean square.

    For signs s1, s2 the matrices s1_i s2_j [i xor j = k] / sqrt(D), k = 1 ... D, are orthonormal, and W spans them. The
    square of the target's product with one of them is sum over i xor j = k of target_ij^2 / D on average over all
    signs: all D together have the share 1 / D of its square on average, so for some signs at least that.

    >>> round(bound(1.0, 2), 4)
    0.7071
    """
    return rms * sqrt(1.0 - 1.0 / size)


def _solve(target: Tensor, basis: Tensor, axis: int) -> Tensor:
    """The numbers z that minimise sum (target - z basis)^2 along an axis; 0 where the basis is."""
    square = basis.square().sum(axis)
    return (target * basis).sum(axis) / torch.where(square > 0, square, 1.0)


def show(records: Sequence[Record]) -> Shown:
    """Every repetition, their median, and the line of W = 0."""
    found = {one["inputs"]["size"]: one["results"]["metrics"] for one in records}
    rmse = {size: found[size]["rmse"] for size in sorted(found)}
    rows = []
    for size, values in rmse.items():
        explained = median(1.0 - (a / b) ** 2 for a, b in zip(values, found[size]["zero"], strict=True))
        spread = f"{min(values):.3f} to {max(values):.3f}"
        bounds = [bound(zero, size) for zero in found[size]["zero"]]
        held = sum(value <= most for value, most in zip(values, bounds, strict=True))
        texts = f"{median(values):.3f}", spread, f"{median(bounds):.3f}", f"{held} of {len(values)}", f"{explained:.1%}"
        rows.append(cells(str(size), f"{3 * size} / {size**2}", *texts))
    head = (
        *("D", "numbers / entries", "median of the least RMSE", "range", "median of the bound", "below it"),
        "share of variance explained",
    )
    words = "The median of the least RMSE against D, with a dot for each matrix; the table has the numbers."
    blocks = (Figure("Least RMSE against D", draw(rmse), alternative=words), Table("Least RMSE", head, rows))
    text = TEXT.format(starts=max(one["inputs"]["starts"] for one in records), zero=ZERO)
    numbers = [
        Entry(NAME, "whvi", "U(-1, 1)", "matrix", 0, one["inputs"]["size"], "median_least_rmse",
              median(values := one["results"]["metrics"]["rmse"]), nan, len(values), records=(one["name"],))
        for one in records
    ]  # fmt: skip
    return Shown(NAME, TITLE, SOURCE, text, blocks, numbers)


def draw(rmse: dict[int, list[float]]) -> str:
    """Dots for repetitions, their median in black."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(5.5, 3.4), layout="constrained")
    axis = canvas.subplots()
    for size, values in rmse.items():
        axis.plot([size] * len(values), values, ".", color="C1", alpha=0.6)
    axis.plot(list(rmse), [median(values) for values in rmse.values()], "k-", label="median")
    axis.axhline(ZERO, color="0.5", linestyle="--", label="W = 0")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="D", ylabel="least RMSE", ylim=(0, 0.7))
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", fontsize=8)
    return figure_svg(canvas)
