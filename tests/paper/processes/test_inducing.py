"""Inducing points and exact processes against closed formulas, and against each other."""

import sys
from importlib.util import find_spec
from math import sqrt

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whvi.errors import ArgumentError, MissingPackageError
from whvi.models import RandomFeatures
from whvi_paper.processes import inducing
from whvi_paper.processes.optimisation import Optimisation

needs_gpytorch = pytest.mark.skipif(find_spec("gpytorch") is None, reason="needs gpytorch, of the extra gp")
F64 = {"dtype": torch.float64}
NOISE = 0.01


def silent(share: float) -> None:
    """No progress."""


def rows(count: int, inputs: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    x = torch.rand(count, inputs, generator=generator, **F64)
    noise = sqrt(NOISE) * torch.randn(count, generator=generator, **F64)
    return x, (5 * x).sin().sum(1) + noise


def closed_formula(x: Tensor, y: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of targets, for the paper's first hyperparameters; the kernel is our own."""
    kernel = RandomFeatures(x.shape[1], 2, lengthscale=sqrt(x.shape[1] / 2), learn=False, **F64).exact
    weights = torch.linalg.solve(kernel(x, x) + NOISE * torch.eye(len(x), **F64), kernel(x, at))
    return weights.mT @ y, 1.0 + NOISE - (weights * kernel(x, at)).sum(0)


@needs_gpytorch
@pytest.mark.parametrize("count", [30, 900])  # beyond 800 rows gpytorch would not factorise
def test_exact_process_is_the_closed_formula(count: int) -> None:
    (x, y), (at, _) = rows(count), rows(7)
    found = inducing.exact(x, y, Optimisation(0, 0.1, noise_variance=NOISE), silent)(at)
    mean, variance = closed_formula(x, y, at)
    assert_close(found.mean, mean, atol=1e-5, rtol=0.0)
    assert_close(found.variance, variance, atol=1e-6, rtol=0.0)
    assert found.noise == pytest.approx(sqrt(NOISE))


@needs_gpytorch
def test_points_at_all_rows_reach_the_evidence() -> None:
    """With the best law of the whitened values the bound is the evidence, and predictions are those of exact ones."""
    (x, y), (at, _) = rows(12), rows(7)
    process, likelihood, objective = inducing.sparse_model(x, 12, "full", Optimisation(0, 0.1, noise_variance=NOISE))
    points = process.variational_strategy.inducing_points.detach()
    kernel = RandomFeatures(2, 2, learn=False, **F64).exact  # lengthscale sqrt(2 / 2)
    root = torch.linalg.cholesky(kernel(points, points) + 1e-6 * torch.eye(12, **F64))
    design = torch.linalg.solve_triangular(root, kernel(points, x), upper=False).mT
    covariance = torch.linalg.inv(torch.eye(12, **F64) + design.mT @ design / NOISE)
    law = process.variational_strategy._variational_distribution
    with torch.no_grad():
        assert objective(process(x), y) * len(x) < -30
        law.variational_mean.copy_(covariance @ design.mT @ y / NOISE)
        law.chol_variational_covar.copy_(torch.linalg.cholesky(covariance))
        bound = objective(process(x), y) * len(x)
    targets = torch.distributions.MultivariateNormal(
        torch.zeros(12, **F64), kernel(x, x) + NOISE * torch.eye(12, **F64)
    )
    assert_close(bound, targets.log_prob(y), atol=1e-2, rtol=0.0)  # the jitter of 1e-6 costs some thousandths
    found = inducing.predictor(process, likelihood)(at)
    mean, variance = closed_formula(x, y, at)
    assert_close(found.mean, mean, atol=1e-3, rtol=0.0)
    assert_close(found.variance, variance, atol=1e-4, rtol=0.0)


@needs_gpytorch
@pytest.mark.parametrize("covariance", inducing.COVARIANCES)
def test_training_learns(covariance: str) -> None:
    (x, y), (at, wanted) = rows(100), rows(50)
    before, after = (
        inducing.sparse(x, y, 20, covariance, Optimisation(steps, 0.1, noise_variance=NOISE), silent)(at)
        for steps in (0, 60)
    )
    assert before.metrics(wanted)["rmse"] > 0.6
    assert after.metrics(wanted)["rmse"] < 0.3


@needs_gpytorch
@pytest.mark.parametrize("covariance", inducing.COVARIANCES)
def test_noise_is_fixed_for_the_first_steps(covariance: str) -> None:
    x, y = rows(40)
    frozen, learned = (
        inducing.sparse(x, y, 5, covariance, Optimisation(4, 0.1, frozen_steps=steps), silent)(x[:1])
        for steps in (4, 2)
    )
    assert frozen.noise == pytest.approx(0.02, rel=1e-9)
    assert abs(learned.noise - 0.02) > 1e-3


@needs_gpytorch
def test_a_seed_gives_the_same_process_and_leaves_the_generator_alone() -> None:
    (x, y), (at, _) = rows(40), rows(7)
    before = torch.random.get_rng_state()
    one, again, other = (
        inducing.sparse(x, y, 5, "diagonal", Optimisation(5, 0.1, seed=seed), silent)(at).mean for seed in (0, 0, 1)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("covariance", inducing.COVARIANCES)
@pytest.mark.parametrize("parameters", [64, 256, 2272])
def test_points_are_the_fewest(parameters: int, covariance: str) -> None:
    points = inducing.points_for(parameters, 8, covariance)
    counts = [inducing.variational_parameters(count, 8, covariance) for count in (points - 1, points)]
    assert counts[0] < parameters <= counts[1]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpytorch", None)
    with pytest.raises(MissingPackageError, match=r"need gpytorch: pip install 'whvi\[gp\]'"):
        inducing.exact(*rows(5), Optimisation(1, 0.1), silent)


def test_unknown_covariance() -> None:
    with pytest.raises(ArgumentError, match="covariance 'low-rank' is unknown; use one of: diagonal, full"):
        inducing.sparse(*rows(5), 2, "low-rank", Optimisation(1, 0.1), silent)


def test_no_rows() -> None:
    x, y = torch.zeros(0, 2), torch.zeros(0)
    with pytest.raises(ArgumentError, match="x has no rows"):
        inducing.sparse(x, y, 2, "full", Optimisation(1, 0.1), silent)
    with pytest.raises(ArgumentError, match="x has no rows"):
        inducing.exact(x, y, Optimisation(1, 0.1), silent)
