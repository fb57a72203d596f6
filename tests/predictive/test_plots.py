"""Pictures show the numbers they are given, on the axis they are given, and need matplotlib alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from whvi import errors
from whvi.predictive.calibration import quantile_calibration, reliability
from whvi.predictive.metrics import selective_curve
from whvi.predictive.plots import plot_bands, plot_calibration, plot_predictions, plot_reliability, plot_selective

X = torch.linspace(-2, 2, 30)
MEAN = X.sin()
BANDS = {0.5: (MEAN - 0.1, MEAN + 0.1), 0.95: (MEAN - 0.3, MEAN + 0.3)}
LEVELS = torch.linspace(0, 1, 11)
OBSERVED = quantile_calibration(torch.rand(50, generator=torch.Generator().manual_seed(0)), LEVELS)
PROBABILITIES = torch.randn(60, 3, generator=torch.Generator().manual_seed(1)).softmax(-1)
RELIABILITY = reliability(PROBABILITIES, torch.arange(60) % 3)
CURVE = selective_curve(1 - PROBABILITIES.max(-1).values, PROBABILITIES.argmax(-1) != torch.arange(60) % 3)

PLOTS: dict[str, Callable[..., Axes]] = {
    "reliability": lambda **axis: plot_reliability(RELIABILITY, **axis),
    "bands": lambda **axis: plot_bands(X, MEAN, BANDS, (X[:5], MEAN[:5]), torch.stack([MEAN, MEAN + 0.1]), **axis),
    "selective": lambda **axis: plot_selective(CURVE, **axis),
    "calibration": lambda **axis: plot_calibration(LEVELS, OBSERVED, **axis),
    "predictions": lambda **axis: plot_predictions(MEAN, MEAN + 0.05, MEAN - 0.1, MEAN + 0.1, **axis),
}


def labels(axis: Axes) -> list[str]:
    legend = axis.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def line(axis: Axes, label: str) -> np.ndarray[Any, Any]:
    """The points of the line with that label: (N, 2)."""
    (found,) = [one for one in axis.lines if one.get_label() == label]
    return np.asarray(found.get_xydata())


@pytest.mark.parametrize("name", PLOTS)
def test_a_picture_is_drawn_on_a_new_figure_or_a_given_axis(name: str, tmp_path: Path) -> None:
    axis = PLOTS[name]()
    axis.figure.savefig(tmp_path / "picture.png")
    picture = imread(tmp_path / "picture.png")
    assert picture.std() > 0.05
    assert axis.get_xlabel()
    assert axis.get_ylabel()
    given = Figure().subplots()
    assert PLOTS[name](axis=given) is given
    assert labels(given) == labels(axis)


def test_pyplot_and_its_state_stay_out() -> None:
    code = (
        "import sys, torch; from whvi.predictive.plots import plot_calibration; assert 'matplotlib' not in sys.modules;"
        "plot_calibration(torch.ones(2), torch.ones(2)); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", PLOTS)
def test_without_matplotlib_the_error_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.MissingPackageError, match=r"pip install 'whvi\[paper\]'"):
        PLOTS[name]()
    assert issubclass(errors.MissingPackageError, ModuleNotFoundError)


def test_reliability_shows_filled_bins_and_the_error() -> None:
    axis = plot_reliability(RELIABILITY)
    filled = RELIABILITY.count > 0
    assert 0 < filled.sum() < len(filled)
    heights = [bar.get_height() for bar in axis.patches]
    shares = RELIABILITY.count[filled] / 60
    np.testing.assert_allclose(heights, torch.cat([RELIABILITY.accuracy[filled], shares]))
    np.testing.assert_allclose(
        [bar.get_x() for bar in axis.patches[: int(filled.sum())]], RELIABILITY.edges[:-1][filled]
    )
    assert axis.get_title() == f"ECE {100 * float(RELIABILITY.error):.1f} %, 60 rows"
    assert set(labels(axis)) == {"accuracy", "share of rows", "calibrated", "gap"}


def test_bands_are_sorted_by_x_and_nested() -> None:
    order = torch.randperm(len(X))
    shuffled = {level: (low[order, None], high[order, None]) for level, (low, high) in BANDS.items()}
    functions = torch.stack([MEAN, MEAN + 0.1])[:, order, None].double().requires_grad_()
    axis = plot_bands(X[order, None], MEAN[order, None], shuffled, (X[:3, None], MEAN[:3]), functions)
    np.testing.assert_allclose(line(axis, "mean"), torch.stack([X, MEAN], -1), atol=1e-6)
    np.testing.assert_allclose(line(axis, "draws"), torch.stack([X, MEAN], -1), atol=1e-6)
    assert len(axis.lines) == 4  # two draws, the mean, the data
    assert len(line(axis, "data")) == 3
    assert labels(axis) == ["95 %", "50 %", "draws", "mean", "data"]
    for band, half in zip(axis.collections, (0.3, 0.1), strict=True):
        corners = band.get_paths()[0].vertices
        np.testing.assert_allclose(np.abs(corners[:, 1] - np.sin(corners[:, 0])), half, atol=1e-5)


def test_selective_shows_the_curve() -> None:
    axis = plot_selective(CURVE)
    expected = torch.stack([100 * CURVE.coverage, CURVE.risk], -1)
    np.testing.assert_allclose(line(axis, "the most certain rows"), expected)
    assert axis.get_title() == f"area {float(CURVE.area):.3g}, all rows {float(CURVE.risk[-1]):.3g}"
    assert axis.get_ylim()[0] == 0
    assert plot_selective(CURVE._replace(risk=CURVE.risk - 1)).get_ylim()[0] < 0  # a loss may be negative


def test_calibration_shows_levels_in_order() -> None:
    axis = plot_calibration(LEVELS.flip(0), OBSERVED.flip(0))
    np.testing.assert_allclose(line(axis, "observed"), torch.stack([LEVELS, OBSERVED], -1))
    assert axis.get_title() == f"mean gap {100 * float((LEVELS - OBSERVED).abs().mean()):.1f} %"


def test_predictions_that_miss_stand_out() -> None:
    y, zero = torch.tensor([[0.0], [5.0], [-5.0], [1.0]]), torch.zeros(4, 1)
    axis = plot_predictions(y, zero, zero - 1, zero + 1)
    assert labels(axis) == ["interval holds y: 2", "interval misses y: 2"]
    assert axis.get_title() == "coverage 50.0 %"
    assert line(axis, "interval misses y: 2")[:, 0].tolist() == [5.0, -5.0]
    assert labels(plot_predictions(zero, zero, zero, zero)) == ["interval holds y: 4"]
    assert labels(plot_predictions(zero + 2, zero, zero, zero)) == ["interval misses y: 4"]


BAD: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("lengths", lambda: plot_bands(X, MEAN[:3], {}), errors.ShapeError, "mean has shape"),
    ("two columns", lambda: plot_bands(torch.ones(3, 2), MEAN, {}), errors.ShapeError, "x must have shape"),
    ("level", lambda: plot_bands(X, MEAN, {95: BANDS[0.95]}), errors.ArgumentError, "levels between 0 and 1, got 95"),
    ("band", lambda: plot_bands(X, MEAN, {0.9: (X[:2], X[:2])}), errors.ShapeError, r"bands\[0.9\] has shape"),
    ("band", lambda: plot_bands(X, MEAN, {0.9: (X, X - 1)}), errors.ArgumentError, "low is above high"),
    ("data", lambda: plot_bands(X, MEAN, {}, (X, X[:2])), errors.ShapeError, r"data\[1\] has shape"),
    ("functions", lambda: plot_bands(X, MEAN, {}, None, X), errors.ShapeError, r"must be \(S, 30\)"),
    ("lengths", lambda: plot_calibration(LEVELS, OBSERVED[:2]), errors.ShapeError, "levels has shape"),
    ("percent", lambda: plot_calibration(100 * LEVELS, OBSERVED), errors.ArgumentError, "levels must lie in"),
    ("percent", lambda: plot_calibration(LEVELS, 100 * OBSERVED), errors.ArgumentError, "observed must lie in"),
    ("lengths", lambda: plot_predictions(X, X, X[:2], X), errors.ShapeError, "low has shape"),
    ("upside down", lambda: plot_predictions(X, X, X + 1, X), errors.ArgumentError, "low is above high"),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
