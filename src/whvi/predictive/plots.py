"""Plots of predictions and of their calibration.

Each function draws on ``axis``, or on one of a new figure, and returns it: ``axis.figure.savefig("picture.png")``.
They need matplotlib (``pip install 'whvi[paper]'``); pyplot and its global state are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from whvi.errors import ArgumentError, MissingPackageError, ShapeError
from whvi.predictive.calibration import Reliability
from whvi.predictive.checked import alike, numbers, ordered, vector, within_one
from whvi.predictive.metrics import SelectiveCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pair = tuple[Tensor, Tensor]

MAIN, WRONG, QUIET = "C0", "C3", "0.45"
"""Colours of predictions, of misses, and of references."""


def plot_reliability(reliability: Reliability, *, axis: Axes | None = None) -> Axes:
    """Accuracy against confidence in each bin, the gap between the two, and the fraction of rows in grey.

    Args:
        reliability: from ``whvi.predictive.reliability``.
    """
    axis = _square(axis)
    filled = _array(reliability.count) > 0
    count, start = _array(reliability.count)[filled], _array(reliability.edges)[:-1][filled]
    confidence, accuracy = _array(reliability.confidence)[filled], _array(reliability.accuracy)[filled]
    width, share = 1.0 / len(filled), count / count.sum()
    axis.bar(start, accuracy, width, align="edge", color=MAIN, alpha=0.35, edgecolor="white", label="accuracy")
    axis.bar(start + width / 2, share, 0.4 * width, color="0.6", label="share of rows")
    _diagonal(axis, "calibrated")
    axis.vlines(confidence, confidence, accuracy, color=WRONG, linewidth=1.5, label="gap")
    axis.plot(confidence, accuracy, "o", color=MAIN, markersize=4)
    title = f"ECE {100 * float(reliability.error):.1f} %, {int(count.sum()):,} rows"
    axis.set(xlabel="confidence", ylabel="accuracy", title=title)
    axis.legend(loc="upper left")
    return axis


def plot_bands(
    x: Tensor,
    mean: Tensor,
    bands: Mapping[float, Pair],
    data: Pair | None = None,
    functions: Tensor | None = None,
    *,
    axis: Axes | None = None,
) -> Axes:
    """A predictive distribution over one input: its mean, its intervals, draws of the function, and the data.

    Args:
        x: (N) or (N, 1), in any order.
        mean: as x.
        bands: level (0.95, for example) -> (low, high), each as x.
        data: (x, y) of M observations, (M) or (M, 1).
        functions: S draws of the function, (S, N) or (S, N, 1).
    """
    line, centre = _line("x", x), _line("mean", mean)
    alike("mean", centre, "x", line)
    order = line.argsort()
    across = _array(line[order])
    axis = _axis(axis, (6.4, 4.0))
    for depth, level in enumerate(sorted(bands, reverse=True)):
        low, high = (_array(bound[order]) for bound in _band(level, bands[level], line))
        alpha = min(0.15 + 0.1 * depth, 0.6)  # bands lie on one another, the widest below
        axis.fill_between(across, low, high, color=MAIN, alpha=alpha, linewidth=0, label=f"{100 * level:g} %")
    if functions is not None:
        draws = _array(_draws(functions, len(line))[:, order]).T
        labels = ["draws", *[""] * (draws.shape[1] - 1)]
        axis.plot(across, draws, color=MAIN, linewidth=0.7, alpha=0.7, label=labels)
    axis.plot(across, _array(centre[order]), color=MAIN, linewidth=2, label="mean")
    if data is not None:
        points, values = _line("data[0]", data[0]), _line("data[1]", data[1])
        alike("data[1]", values, "data[0]", points)
        axis.plot(_array(points), _array(values), ".", color="black", markersize=4, label="data", zorder=3)
    axis.margins(x=0)
    axis.set(xlabel="x", ylabel="y")
    axis.legend()
    return axis


def _band(level: float, bounds: Pair, line: Tensor) -> Pair:
    """(low, high) of a level, checked."""
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"the keys of bands are levels between 0 and 1, got {level!r}")
    low, high = (_line(f"bands[{level:g}]", bound) for bound in bounds)
    for bound in (low, high):
        alike(f"bands[{level:g}]", bound, "x", line)
    ordered(low, high)
    return low, high


def _draws(functions: Tensor, size: int) -> Tensor:
    """(S, N) or (S, N, 1) -> (S, N), checked."""
    draws = numbers("functions", functions)
    if tuple(draws.shape[1:]) not in ((size,), (size, 1)):
        raise ShapeError(f"functions have shape {tuple(draws.shape)}, but must be (S, {size}): S draws at the N x")
    return draws.reshape(len(draws), size)


def plot_selective(curve: SelectiveCurve, *, axis: Axes | None = None) -> Axes:
    """Risk against coverage, the area under it, and the risk if all rows are kept.

    Args:
        curve: from ``whvi.predictive.selective_curve``.
    """
    axis = _axis(axis, (5.2, 4.0))
    coverage, risk = 100 * _array(curve.coverage), _array(curve.risk)
    axis.fill_between(coverage, 0, risk, color=MAIN, alpha=0.2, linewidth=0)
    axis.plot(coverage, risk, color=MAIN, linewidth=2, label="the most certain rows")
    axis.axhline(risk[-1], color=QUIET, linestyle="--", linewidth=1, label="all rows")
    axis.set(xlim=(0, 100), xlabel="coverage, % of rows kept", ylabel="risk, mean loss of these rows")
    axis.set_title(f"area {float(curve.area):.3g}, all rows {risk[-1]:.3g}")
    if risk.min() >= 0:
        axis.set_ylim(bottom=0)
    axis.legend()
    return axis


def plot_calibration(levels: Tensor, observed: Tensor, *, axis: Axes | None = None) -> Axes:
    """Fraction of targets below each predictive quantile against its level.

    Args:
        levels: (L).
        observed: (L), from ``whvi.predictive.quantile_calibration``.
    """
    stated, found = vector("levels", levels), vector("observed", observed)
    alike("levels", stated, "observed", found)
    within_one("levels", stated)
    within_one("observed", found)
    order = stated.argsort()
    across, up = _array(stated[order]), _array(found[order])
    axis = _square(axis)
    axis.fill_between(across, across, up, color=WRONG, alpha=0.15, linewidth=0, label="gap")
    _diagonal(axis, "calibrated")
    axis.plot(across, up, "o-", color=MAIN, markersize=4, label="observed", clip_on=False, zorder=3)
    axis.set(xlabel="level of the predictive quantile", ylabel="share of targets below it")
    axis.set_title(f"mean gap {100 * abs(up - across).mean():.1f} %")
    axis.legend(loc="upper left")
    return axis


def plot_predictions(y: Tensor, mean: Tensor, low: Tensor, high: Tensor, *, axis: Axes | None = None) -> Axes:
    """Predictions with their intervals against the truth; intervals that miss it are highlighted.

    Args:
        y, mean, low, high: (N) or (N, 1).
    """
    truth, centre, bottom, top = map(_line, ("y", "mean", "low", "high"), (y, mean, low, high))
    for name, values in {"mean": centre, "low": bottom, "high": top}.items():
        alike(name, values, "y", truth)
    ordered(bottom, top)
    axis = _axis(axis, (5.0, 5.0))
    miss = (truth < bottom) | (truth > top)
    for rows, colour, label in ((~miss, MAIN, "interval holds y"), (miss, WRONG, "interval misses y")):
        if not bool(rows.any()):
            continue
        across, up, down, above = (_array(part[rows]) for part in (truth, centre, bottom, top))
        axis.vlines(across, down, above, color=colour, linewidth=0.9, alpha=0.45)
        axis.plot(across, up, "o", color=colour, markersize=3.5, label=f"{label}: {int(rows.sum()):,}")
    middle = float(truth.mean())
    axis.axline((middle, middle), slope=1, color=QUIET, linestyle="--", linewidth=1)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set(xlabel="y", ylabel="predicted", title=f"coverage {100 * (1 - float(miss.double().mean())):.1f} %")
    axis.legend()
    return axis


def _axis(axis: Axes | None, size: tuple[float, float]) -> Axes:
    """``axis``, or that of a new figure, with the grid that all pictures have."""
    if axis is None:
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise MissingPackageError(
                "plots need matplotlib, which is not installed; install it with: pip install 'whvi[paper]'"
            ) from error
        axis = Figure(figsize=size, layout="constrained").subplots()
    axis.grid(alpha=0.3)
    axis.set_axisbelow(True)
    return axis


def _square(axis: Axes | None) -> Axes:
    """An axis for shares against shares."""
    axis = _axis(axis, (4.6, 4.6))
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return axis


def _diagonal(axis: Axes, label: str) -> None:
    axis.plot([0, 1], [0, 1], color=QUIET, linestyle="--", linewidth=1, label=label)


def _line(name: str, x: Tensor) -> Tensor:
    """(N) or (N, 1) -> (N), checked."""
    wide = numbers(name, x)
    if wide.ndim == 2 and wide.shape[1] == 1:
        wide = wide.squeeze(1)
    return vector(name, wide)


def _array(x: Tensor) -> Any:
    """For matplotlib: without gradients, from any device, in any dtype."""
    return x.detach().double().cpu().numpy()
