"""Metrics are what other libraries and their own definitions say, and obey the laws of their docstrings."""

from collections.abc import Callable
from math import inf, nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from torch import Tensor
from torch.testing import assert_close

from whvi import errors
from whvi.predictive.checked import alike
from whvi.predictive.metrics import (
    auroc,
    brier,
    crps_gaussian,
    crps_samples,
    error_rate,
    mnll,
    rmse,
    selective_curve,
    sharpness,
)

laws = settings(max_examples=50, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31)
sizes = st.integers(1, 40)


def normal(*shape: int, seed: int = 0, digits: int | None = None) -> Tensor:
    """Standard normals; few digits make ties."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x if digits is None else x.round(decimals=digits)


def classes(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A forecast and the labels."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * normal(rows, columns, seed=seed)).softmax(-1), torch.randint(columns, (rows,), generator=generator)


def same(found: Tensor, expected: Tensor | float, tolerance: float = 1e-12) -> None:
    assert found.shape == ()
    assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=tolerance, atol=tolerance)


@given(seeds, sizes, st.integers(2, 6))
@laws
def test_points_and_classes_agree_with_scikit_learn(seed: int, rows: int, columns: int) -> None:
    mean, y = normal(2, rows, 3, seed=seed)
    same(rmse(mean, y), reference.mean_squared_error(y, mean) ** 0.5)
    probabilities, labels = classes(rows, columns, seed)
    same(error_rate(probabilities, labels), 1 - reference.accuracy_score(labels, probabilities.argmax(-1)))
    log_prob = probabilities.gather(1, labels[:, None])[:, 0].log()
    same(mnll(log_prob), reference.log_loss(labels, probabilities, labels=range(columns)))
    one_against_rest = [
        reference.brier_score_loss(labels == c, probabilities[:, c], pos_label=1) for c in range(columns)
    ]
    same(brier(probabilities, labels), sum(one_against_rest))


def test_a_binary_brier_score_is_half() -> None:
    probabilities, labels = classes(50, 2)
    same(brier(probabilities, labels) / 2, reference.brier_score_loss(labels, probabilities[:, 1]))


def test_root_mean_squared_error_of_scikit_learn() -> None:
    mean, y = normal(2, 30)
    same(rmse(mean, y), reference.root_mean_squared_error(y, mean))


@given(seeds, sizes, sizes, st.sampled_from([0, 1, None]))
@laws
def test_auroc_is_that_of_scikit_learn_with_ties_and_its_mirror(seed: int, n: int, m: int, digits: int | None) -> None:
    inside, outside = normal(n, seed=seed, digits=digits), normal(m, seed=seed + 1, digits=digits) + 0.5
    outside = outside if digits is None else outside.round(decimals=digits)
    truth = np.repeat([0, 1], [n, m])
    same(auroc(inside, outside), reference.roc_auc_score(truth, torch.cat([inside, outside])))
    same(auroc(outside, inside), 1 - auroc(inside, outside))
    same(auroc(inside.exp(), outside.exp()), auroc(inside, outside))  # only the order counts


def test_auroc_of_extremes() -> None:
    low, high = torch.tensor([-inf, 0.0]), torch.tensor([1.0, inf])
    same(auroc(low, high), 1.0)
    same(auroc(high, low), 0.0)
    same(auroc(torch.ones(3), torch.ones(5)), 0.5)


def integral(mean: float, std: float, y: float) -> float:
    """Of (F(t) - 1{y <= t})^2 dt, by Gauss-Legendre on both sides of the jump."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(200))

    def part(start: float, end: float, step: float) -> float:
        t = start + (nodes + 1) / 2 * (end - start)
        return float((weights * (torch.special.ndtr((t - mean) / std) - step).square()).sum()) * (end - start) / 2

    return part(min(mean - 12 * std, y), y, 0.0) + part(y, max(mean + 12 * std, y), 1.0)


@given(st.floats(-5, 5), st.floats(0.05, 4), st.floats(-8, 8))
@laws
def test_gaussian_crps_is_its_integral(mean: float, std: float, z: float) -> None:
    y = mean + std * z
    found = crps_gaussian(*(torch.tensor([value], dtype=torch.float64) for value in (mean, std, y)))
    same(found, integral(mean, std, y), 1e-10)


def test_gaussian_crps_is_a_mean_over_rows_and_at_no_spread_the_absolute_error() -> None:
    mean, y = normal(2, 7, 2)
    std = normal(7, 2, seed=1).abs()
    rows = torch.stack([mean, std, y], -1).reshape(-1, 3, 1)
    same(crps_gaussian(mean, std, y), torch.stack([crps_gaussian(*row) for row in rows]).mean())
    y[0, 0] = mean[0, 0]  # zero over zero
    same(crps_gaussian(mean, torch.zeros_like(std), y), (mean - y).abs().mean())


@given(seeds, st.integers(2, 12), sizes, st.sampled_from([0, None]))
@laws
def test_sample_crps_is_the_fair_double_sum(seed: int, count: int, rows: int, digits: int | None) -> None:
    samples, y = normal(count, rows, 2, seed=seed, digits=digits), normal(rows, 2, seed=seed + 1)
    pairs = (samples[:, None] - samples).abs().sum((0, 1)) / (count * (count - 1))
    expected = ((samples - y).abs().mean(0) - pairs / 2).mean()
    same(crps_samples(samples, y), expected)
    same(crps_samples(samples[torch.randperm(count)], y), expected)
    same(crps_samples(samples + 1e4, y + 1e4), expected, 1e-9)


@pytest.mark.parametrize("count", [2, 5, 40])
def test_sample_crps_is_on_average_that_of_the_law(count: int) -> None:
    groups, rows, std, y = 100, 400, 1.7, 0.6
    target = torch.full((rows,), y, dtype=torch.float64)
    found = torch.stack([crps_samples(std * normal(count, rows, seed=seed), target) for seed in range(groups)])
    exact = crps_gaussian(torch.zeros_like(target), torch.full_like(target, std), target)
    standard_error = found.std() / groups**0.5
    assert standard_error < 0.01 * exact
    assert (found.mean() - exact).abs() < 4 * standard_error


def test_of_a_calibrated_law_the_error_is_the_sharpness_and_the_truth_scores_best() -> None:
    count = 40_000
    std = normal(count, seed=1).exp()
    mean = torch.zeros_like(std)
    y = std * normal(count)
    squares = y.square()
    assert (squares.mean() - sharpness(std).square()).abs() < 4 * squares.std() / count**0.5
    same(rmse(mean, y).square(), squares.mean())
    best = crps_gaussian(mean, std, y)
    for wrong in (
        crps_gaussian(mean, 1.3 * std, y),
        crps_gaussian(mean, std / 1.3, y),
        crps_gaussian(mean + std, std, y),
    ):
        assert wrong > best


def test_sharpness_is_the_root_of_the_mean_variance() -> None:
    std = normal(9, 2).abs()
    same(sharpness(std), std.pow(2).mean().sqrt())
    assert sharpness(std) > std.mean()


@given(seeds, sizes, st.sampled_from([0, 1, None]))
@laws
def test_laws_of_the_selective_curve(seed: int, rows: int, digits: int | None) -> None:
    uncertainty, loss = normal(rows, seed=seed, digits=digits), normal(rows, seed=seed + 1).abs()
    curve = selective_curve(uncertainty, loss)
    assert_close(curve.coverage, torch.linspace(1 / rows, 1, rows, dtype=torch.float64))
    same(curve.risk[-1], loss.mean())
    same(curve.area, curve.risk.mean())
    order = torch.randperm(rows)
    assert_close(tuple(selective_curve(uncertainty[order], loss[order])), tuple(curve), rtol=1e-12, atol=1e-12)
    same(selective_curve(uncertainty, torch.full((rows,), 0.3, dtype=torch.float64)).area, 0.3)
    for k in range(1, rows + 1):  # where the uncertainty jumps, the rows that are kept are known
        if k == rows or uncertainty.sort().values[k - 1] < uncertainty.sort().values[k]:
            same(curve.risk[k - 1], loss[uncertainty.argsort()[:k]].mean())


def test_ties_have_the_risk_of_a_random_order() -> None:
    uncertainty, loss = torch.tensor([0.0, 1, 1, 1, 2]), torch.tensor([0.0, 3, 0, 0, 5])
    found = selective_curve(uncertainty, loss)
    noise = 0.5 * torch.rand(20_000, 5)
    shuffled = torch.stack([loss[(uncertainty + row).argsort()].cumsum(0) / torch.arange(1, 6) for row in noise])
    error = 4 * shuffled.std(0) / len(noise) ** 0.5 + 1e-6
    assert ((shuffled.mean(0) - found.risk).abs() <= error).all()
    assert_close(found.risk, torch.tensor([0, 0.5, 2 / 3, 0.75, 1.6], dtype=torch.float64))


def test_a_better_order_has_less_area() -> None:
    loss = normal(200).abs()
    assert selective_curve(loss, loss).area < selective_curve(normal(200, seed=1), loss).area
    assert selective_curve(-loss, loss).area > selective_curve(normal(200, seed=1), loss).area


def test_errors_are_a_loss() -> None:
    curve = selective_curve(torch.tensor([0.1, 0.2]), torch.tensor([False, True]))
    assert curve.risk.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_float_dtype_gives_the_float64_result_of_its_values(dtype: torch.dtype) -> None:
    mean, y = normal(2, 200).to(dtype)
    std = normal(200, seed=1).abs().to(dtype)
    probabilities, labels = classes(200, 3)
    probabilities = probabilities.to(dtype)
    samples = normal(8, 200, seed=3).to(dtype)
    metrics: list[tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = [
        (rmse, (mean, y)),
        (mnll, (mean,)),
        (crps_gaussian, (mean, std, y)),
        (crps_samples, (samples, y)),
        (auroc, (mean, y)),
        (sharpness, (std,)),
    ]
    for metric, inputs in metrics:
        same(metric(*inputs), metric(*(x.double() for x in inputs)))
    same(brier(probabilities, labels.int()), brier(classes(200, 3)[0], labels), 0.02 if dtype.itemsize == 2 else 1e-6)


@given(seeds, sizes)
@laws
def test_the_order_of_rows_does_not_matter(seed: int, rows: int) -> None:
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    mean, y = normal(2, rows, seed=seed)
    std, samples = normal(rows, seed=seed + 1).abs(), normal(4, rows, seed=seed + 2)
    probabilities, labels = classes(rows, 4, seed)
    for metric, inputs in {
        rmse: (mean, y),
        mnll: (mean,),
        crps_gaussian: (mean, std, y),
        auroc: (mean, y),
        sharpness: (std,),
        error_rate: (probabilities, labels),
        brier: (probabilities, labels),
    }.items():
        same(metric(*(x[order] for x in inputs)), metric(*inputs))
    same(crps_samples(samples[:, order], y[order]), crps_samples(samples, y))


def test_metrics_of_points_and_densities_are_differentiable() -> None:
    mean, y = normal(2, 6)
    std, samples = normal(6, seed=1).exp(), normal(5, 6, seed=2)
    mean.requires_grad_()
    std.requires_grad_()
    samples.requires_grad_()
    assert torch.autograd.gradcheck(rmse, (mean, y))
    assert torch.autograd.gradcheck(crps_gaussian, (mean, std, y))
    assert torch.autograd.gradcheck(crps_samples, (samples, y))


def test_an_impossible_row_has_an_infinite_score() -> None:
    assert mnll(torch.tensor([0.0, -inf])) == inf


ONE, TWO, EVEN, LABEL = torch.ones(1), torch.ones(2), torch.full((2, 2), 0.5), torch.tensor([0, 1])
BAD: list[tuple[str, Callable[[], object], type[Exception], str]] = [
    ("an array", lambda: rmse(np.ones(2), TWO), errors.InputTypeError, "mean must be a torch.Tensor, got ndarray"),
    ("complex", lambda: rmse(TWO + 0j, TWO), errors.DtypeError, "must be real"),
    ("a scalar", lambda: rmse(torch.tensor(1.0), TWO), errors.ShapeError, "mean is a scalar"),
    ("no rows", lambda: rmse(torch.ones(0), torch.ones(0)), errors.ShapeError, "mean is empty"),
    ("no rows", lambda: mnll(torch.ones(0)), errors.ShapeError, "log_prob is empty"),
    ("no rows", lambda: brier(torch.ones(0, 2), LABEL[:0]), errors.ShapeError, "probabilities is empty"),
    ("no broadcasting", lambda: rmse(TWO[:, None], TWO), errors.ShapeError, r"mean has shape \(2, 1\), but y has \(2,"),
    ("lengths", lambda: crps_gaussian(TWO, ONE, TWO), errors.ShapeError, "std has shape"),
    ("lengths", lambda: crps_samples(torch.ones(4, 3), TWO), errors.ShapeError, "the samples come first"),
    ("lengths", lambda: selective_curve(TWO, ONE), errors.ShapeError, "uncertainty has shape"),
    (
        "lengths",
        lambda: error_rate(EVEN, LABEL[:1]),
        errors.ShapeError,
        r"labels must have shape \(2,\), .* got \(1,\)",
    ),
    ("outputs", lambda: mnll(torch.ones(2, 1)), errors.ShapeError, r"log_prob must have .* got \(2, 1\)"),
    ("NaN", lambda: rmse(TWO, TWO * nan), errors.ArgumentError, "y has 2 NaN among its 2"),
    ("NaN", lambda: mnll(TWO * nan), errors.ArgumentError, "log_prob has 2 NaN"),
    ("NaN", lambda: auroc(TWO, TWO * nan), errors.ArgumentError, "scores_out has 2 NaN"),
    ("NaN", lambda: brier(EVEN * nan, LABEL), errors.ArgumentError, "probabilities has 4 NaN"),
    ("infinity", lambda: rmse(TWO * inf, TWO), errors.ArgumentError, "mean has 2 infinity"),
    ("infinity", lambda: selective_curve(TWO, TWO * inf), errors.ArgumentError, "loss has 2 infinity"),
    ("a density", lambda: mnll(TWO * inf), errors.ArgumentError, "log_prob is infinite"),
    ("below zero", lambda: sharpness(-TWO), errors.ArgumentError, "std must be at least 0, but holds -1"),
    ("below zero", lambda: crps_gaussian(TWO, -TWO, TWO), errors.ArgumentError, "std must be at least 0"),
    ("one sample", lambda: crps_samples(torch.ones(1, 2), TWO), errors.ArgumentError, "at least 2 samples"),
    ("one column", lambda: brier(TWO, LABEL), errors.ShapeError, r"torch.stack\(\[1 - p, p\]"),
    ("logits", lambda: brier(3 * EVEN, LABEL), errors.ArgumentError, "one sum is 3; take the softmax"),
    ("nearly one", lambda: brier(EVEN * 1.002, LABEL), errors.ArgumentError, "one sum is 1.002"),
    ("negative", lambda: brier(torch.tensor([[-0.1, 1.1]]), LABEL[:1]), errors.ArgumentError, "smallest is -0.1"),
    ("whole", lambda: brier(torch.eye(2).long(), LABEL), errors.DtypeError, "must be floating point"),
    ("label", lambda: error_rate(EVEN, LABEL + 1), errors.ArgumentError, "labels must be from 0 to 1.* 1 to 2"),
    ("label", lambda: brier(EVEN, LABEL - 1), errors.ArgumentError, "reach from -1 to 0"),
    ("label", lambda: brier(EVEN, LABEL.float()), errors.DtypeError, r"use labels.long\(\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_tensors_must_be_in_one_place() -> None:
    with pytest.raises(errors.DeviceError, match="mean is on cpu, but y is on meta"):
        alike("mean", TWO, "y", TWO.to("meta"))


def test_a_sum_of_nearly_one_will_do() -> None:
    assert_close(brier(EVEN * 1.0005, LABEL), brier(EVEN, LABEL), atol=1e-3, rtol=0)
