"""Calibration is what torchmetrics, scikit-learn and the laws of its docstrings say."""

from collections.abc import Callable
from math import inf, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from torch import Tensor
from torch.testing import assert_close
from torchmetrics.classification import MulticlassCalibrationError

from whvi import errors
from whvi.predictive.calibration import (
    coverage,
    ece,
    interval_score,
    interval_width,
    quantile_calibration,
    reliability,
)

laws = settings(max_examples=50, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)
sizes = st.integers(1, 60)
bin_counts = st.sampled_from([1, 2, 10, 15])


def forecast(rows: int, columns: int, seed: int = 0, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    """Probabilities, and labels that know nothing of them."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(columns, (rows,), generator=generator)


def same(found: Tensor, expected: Tensor | float, tolerance: float = 1e-12) -> None:
    assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=tolerance, atol=tolerance)


@given(seeds, sizes, st.integers(2, 6), bin_counts)
@laws
def test_ece_is_that_of_torchmetrics(seed: int, rows: int, columns: int, bins: int) -> None:
    probabilities, labels = forecast(rows, columns, seed)
    other = MulticlassCalibrationError(columns, n_bins=bins, norm="l1")
    same(ece(probabilities, labels, bins), other(probabilities, labels).double(), 1e-6)


def test_ece_has_15_bins_unless_told() -> None:
    probabilities, labels = forecast(500, 4)
    same(ece(probabilities, labels), MulticlassCalibrationError(4)(probabilities, labels).double(), 1e-6)
    assert ece(probabilities, labels, 1) < ece(probabilities, labels)


@given(seeds, st.integers(1, 100), bin_counts)
@laws
def test_bins_are_those_of_scikit_learn_on_their_edges_too(seed: int, rows: int, bins: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    top = torch.randint(11, 21, (rows,), generator=generator) / torch.tensor(20.0, dtype=torch.float64)
    yes = torch.randint(2, (rows,), generator=generator)
    found = reliability(torch.stack([1 - top, top], -1), yes, bins)
    accuracy, confidence = calibration_curve(yes, top, n_bins=bins, strategy="uniform")
    filled = found.count > 0
    same(found.accuracy[filled], torch.from_numpy(accuracy))
    same(found.confidence[filled], torch.from_numpy(confidence))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_edge_belongs_to_the_bin_below_in_every_dtype(dtype: torch.dtype) -> None:
    top = torch.tensor([0.6, 0.7, 0.7, 0.8, 1.0], dtype=dtype)
    found = reliability(torch.stack([top, 1 - top], -1), torch.tensor([0, 0, 1, 0, 0]), bins=10)
    assert found.count.tolist() == [0, 0, 0, 0, 0, 1, 2, 1, 0, 1]
    assert found.accuracy[[5, 6, 7, 9]].tolist() == [1.0, 0.5, 1.0, 1.0]
    assert found.confidence[[5, 6, 7, 9]].tolist() == top.double()[[0, 1, 3, 4]].tolist()
    assert found.accuracy.isnan().tolist() == found.confidence.isnan().tolist() == (found.count == 0).tolist()
    same(found.edges, torch.arange(11) / torch.tensor(10.0).double())


def test_a_certain_row_shares_the_last_bin() -> None:
    found = ece(torch.tensor([[1.0, 0.0], [0.96, 0.04]]), torch.tensor([0, 1]))
    same(found, 0.98 - 0.5, 1e-6)


@given(seeds, sizes, st.integers(2, 6), bin_counts, st.sampled_from([0.0, 1.0, 30.0]))
@laws
def test_laws_of_ece(seed: int, rows: int, columns: int, bins: int, scale: float) -> None:
    probabilities, labels = forecast(rows, columns, seed, scale)
    error = ece(probabilities, labels, bins)
    assert 0.0 <= error <= 1.0 + 1e-12
    order = torch.randperm(rows)
    same(ece(probabilities[order], labels[order], bins), error)
    relabelled = torch.randperm(columns)  # names of classes do not matter, unless two share the top
    if scale:
        same(ece(probabilities[:, relabelled], relabelled.argsort()[labels], bins), error)
    right = torch.eye(columns)[labels]
    same(ece(right, labels, bins), 0.0)
    same(ece(right, (labels + 1) % columns, bins), 1.0)
    found = reliability(probabilities, labels, bins)
    assert found.count.sum() == rows
    same((found.confidence * found.count).nansum() / rows, probabilities.max(-1).values.mean())
    same((found.accuracy * found.count).nansum() / rows, (probabilities.argmax(-1) == labels).double().mean())


def test_ece_of_a_calibrated_forecast_vanishes_with_the_rows() -> None:
    probabilities, _ = forecast(100_000, 3)
    labels = torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(1))[:, 0]
    found = reliability(probabilities, labels)
    filled = found.count > 0
    error = (found.accuracy * (1 - found.accuracy) / found.count).sqrt()
    assert ((found.accuracy - found.confidence).abs() <= 4 * error + 1e-9)[filled].all()
    assert ece(probabilities, labels) < 0.01
    assert ece(probabilities.square() / probabilities.square().sum(-1, keepdim=True), labels) > 0.05


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_an_interval_of_the_true_law_covers_its_level(level: float) -> None:
    count = 40_000
    generator = torch.Generator().manual_seed(0)
    mean, log_std, noise = torch.randn(3, count, 1, generator=generator, dtype=torch.float64)
    half = torch.special.ndtri(torch.tensor(0.5 + level / 2, dtype=torch.float64)) * log_std.exp()
    y = mean + log_std.exp() * noise
    found = coverage(mean - half, mean + half, y)
    assert (found - level).abs() < 4 * (level * (1 - level) / count) ** 0.5
    same(interval_width(mean - half, mean + half), 2 * half.mean())
    assert coverage(mean - half / 2, mean + half / 2, y) < found
    best = interval_score(mean - half, mean + half, y, level)
    for factor in (0.7, 1.4):
        assert interval_score(mean - factor * half, mean + factor * half, y, level) > best
    assert interval_score(mean + 0.5 * half, mean + 2.5 * half, y, level) > best


def test_ends_belong_to_an_interval() -> None:
    low, high = torch.zeros(4), torch.ones(4)
    same(coverage(low, high, torch.tensor([0.0, 1.0, -1e-6, 1 + 1e-6])), 0.5)
    same(coverage(low, low, low), 1.0)
    same(interval_width(low, low), 0.0)
    same(interval_score(low, low, low, 0.9), 0.0)


def test_quantiles_of_the_true_law_come_true_and_those_of_another_do_not() -> None:
    count = 40_000
    noise = torch.randn(count // 2, 2, dtype=torch.float64)
    levels = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    observed = quantile_calibration(torch.special.ndtr(noise), levels)
    standard_error = (levels * (1 - levels) / count).sqrt()
    assert ((observed - levels).abs() < 4 * standard_error).all()
    too_sure = quantile_calibration(torch.special.ndtr(2 * noise), levels)
    assert (too_sure[:9] > levels[:9] + 4 * standard_error[:9]).all()
    assert (too_sure[10:] < levels[10:] - 4 * standard_error[10:]).all()


@given(seeds, sizes, sizes, st.sampled_from([1, None]))
@laws
def test_quantile_calibration_counts(seed: int, rows: int, levels: int, digits: int | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    values, stated = (torch.rand(n, generator=generator, dtype=torch.float64) for n in (rows, levels))
    if digits:  # ties between values and levels
        values, stated = values.round(decimals=digits), stated.round(decimals=digits)
    same(quantile_calibration(values, stated), (values <= stated[:, None]).double().mean(-1))


TWO, EVEN, LABEL = torch.ones(2), torch.full((2, 2), 0.5), torch.tensor([0, 1])
BAD: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("bins", lambda: ece(EVEN, LABEL, 0), errors.ArgumentError, "bins must be at least 1, got 0"),
    ("bins", lambda: ece(EVEN, LABEL, 1.5), errors.InputTypeError, "bins must be an int, got 1.5"),
    ("bins", lambda: reliability(EVEN, LABEL, True), errors.InputTypeError, "bins must be an int, got True"),
    ("label", lambda: ece(EVEN, LABEL + 1), errors.ArgumentError, "labels must be from 0 to 1"),
    ("logits", lambda: ece(EVEN + 1, LABEL), errors.ArgumentError, "take the softmax of logits first"),
    ("no rows", lambda: ece(EVEN[:0], LABEL[:0]), errors.ShapeError, "probabilities is empty"),
    ("no rows", lambda: coverage(TWO[:0], TWO[:0], TWO[:0]), errors.ShapeError, "low is empty"),
    ("upside down", lambda: coverage(TWO, 0 * TWO, TWO), errors.ArgumentError, "low is above high in 2 of 2"),
    ("upside down", lambda: interval_width(TWO, 0 * TWO), errors.ArgumentError, "low is above high in 2 of 2"),
    ("lengths", lambda: coverage(TWO, TWO, TWO[:1]), errors.ShapeError, "low has shape"),
    ("no broadcasting", lambda: interval_width(TWO, TWO[:, None]), errors.ShapeError, "low has shape"),
    ("NaN", lambda: coverage(TWO, TWO, TWO * nan), errors.ArgumentError, "y has 2 NaN"),
    ("infinity", lambda: interval_width(TWO, TWO * inf), errors.ArgumentError, "high has 2 infinity"),
    ("level", lambda: interval_score(TWO, TWO, TWO, 1.0), errors.ArgumentError, "level must be between 0 and 1, got 1"),
    ("range", lambda: quantile_calibration(2 * TWO, TWO), errors.ArgumentError, r"cdf_values must lie in \[0, 1\]"),
    ("range", lambda: quantile_calibration(TWO, -TWO), errors.ArgumentError, r"levels must lie in \[0, 1\]"),
    ("levels", lambda: quantile_calibration(TWO, EVEN), errors.ShapeError, "levels must have shape"),
    ("a number", lambda: quantile_calibration(TWO, 0.5), errors.InputTypeError, "levels must be a torch.Tensor"),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
