"""One posterior over the vectors of several terms or blocks."""

from typing import Any

import pytest
import torch

import whvi
from whvi.errors import ArgumentError
from whvi.nn import WHVILinear
from whvi.ops import draw_seed
from whvi.posterior import (
    ConstantWeightVariance,
    DiagonalGaussian,
    FullGaussian,
    GaussianPrior,
    JointPosterior,
    Posterior,
    make_posterior,
)
from whvi.testing import LinearGaussian, assert_close, assert_estimate, design_matrix, perturb

SPECS = ("diagonal", "low_rank:2", "full", "planar:2", "point")


def make(spec: str, *shape: int) -> Posterior:
    torch.manual_seed(0)
    posterior = make_posterior(spec, torch.randn(shape, dtype=torch.float64))
    perturb(posterior)
    return posterior


@pytest.mark.parametrize("spec", SPECS)
def test_it_is_the_distribution_of_all_numbers_as_one_vector(spec: str) -> None:
    joint, flat = make(f"joint:{spec}", 2, 3), make(spec, 6)
    assert isinstance(joint, JointPosterior)
    seed = draw_seed()
    assert joint.event_shape == (2, 3)
    assert torch.equal(joint.mean.flatten(), flat.mean)
    draws = joint.rsample((4,), seed=seed, offset=5)
    assert torch.equal(draws.flatten(1), flat.rsample((4,), seed=seed, offset=5))
    torch.manual_seed(1)
    of_joint = joint.kl(GaussianPrior(0.7))
    torch.manual_seed(1)
    assert torch.equal(of_joint, flat.kl(GaussianPrior(0.7)))


def test_a_single_vector_needs_nothing_around_it() -> None:
    assert isinstance(make("joint:full", 4), FullGaussian)
    assert isinstance(make("joint:diagonal", 4), DiagonalGaussian)


LAYERS: list[dict[str, Any]] = [{"terms": 2}, {"terms": 2, "layout": "grid", "block": 2}, {"share_g": False}]


@pytest.mark.parametrize("options", LAYERS)
def test_the_weight_has_the_covariance_of_its_draws(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layer = WHVILinear(3, 5, bias=False, posterior="joint:full", dtype=torch.float64, **options)
    perturb(layer.g)
    law = layer.weight_distribution()
    samples = layer.weight_at(layer.draw((40_000,))).mT.flatten(1).detach()
    assert_estimate(samples, law.mean.T.flatten().detach())
    root = torch.linalg.cholesky(torch.cov(samples.T) + 1e-6 * torch.eye(15).double())
    torch.testing.assert_close(root @ root.T, law.covariance.detach(), rtol=0.1, atol=0.06)


@pytest.mark.parametrize("options", LAYERS)
def test_the_bound_reaches_the_evidence(options: dict[str, Any]) -> None:
    """With correlated terms the exact posterior is in the family; with one full Gaussian for each it is not."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    joint = WHVILinear(3, 5, bias=False, posterior="joint:full", dtype=torch.float64, **options)
    design = design_matrix(joint, x)
    targets = torch.randn(len(design), dtype=torch.float64)
    problem = LinearGaussian(design, targets, 0.3, torch.eye(design.shape[1], dtype=torch.float64))
    mean, covariance = problem.posterior()
    root = torch.linalg.cholesky(covariance)
    row, column = torch.tril_indices(len(root), len(root), -1)
    flat = joint.g.flat
    with torch.no_grad():
        flat.mean.copy_(mean)
        flat.log_std.copy_(root.diagonal().log())
        flat.lower.copy_(root[row, column])
    spread = joint.g.covariance_root()
    expected = problem.expected_log_likelihood(joint.g.mean.flatten(), spread @ spread.mT)
    assert abs(float((expected - whvi.kl(joint) - problem.log_evidence()).detach())) < 1e-8
    size = joint.g.event_shape[-1]
    parts = [covariance[i : i + size, i : i + size] for i in range(0, len(mean), size)]
    apart = problem.elbo(mean, torch.block_diag(*parts))
    gap = float(problem.log_evidence() - apart)
    assert gap > 1e-3 if "terms" in options else abs(gap) < 1e-8  # blocks on top of each other see no common target


def test_passes_draws_and_gradients_are_those_of_the_dense_layer() -> None:
    torch.manual_seed(0)
    layer = WHVILinear(3, 5, terms=2, posterior="joint:low_rank:2", dtype=torch.float64)
    x = torch.randn(6, 3, dtype=torch.float64)
    with whvi.sampling(layer) as draws:
        found = layer(x)
    weight, bias = layer.weight_at(draws[layer]), layer.bias_value(draws[layer])
    expected = x @ weight.T + bias
    assert_close(found, expected, 1e-12)
    parameters = list(layer.g.parameters())
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), parameters) for y in (found, expected)), strict=True):
        assert_close(a, b, 1e-12)


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="joint"):
        make("joint:nothing", 2, 3)
    layer = WHVILinear(4, 4, terms=2, posterior="joint:full", prior_variance=ConstantWeightVariance(0.1))
    with pytest.raises(ArgumentError, match="GaussianPrior"):
        layer.kl()
