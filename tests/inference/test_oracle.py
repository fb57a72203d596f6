"""Inference against problems whose posterior is known."""

import pytest
import torch
from torch.func import vmap

from whvi.inference import SVI, elbo, fit
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.testing.conjugate import LinearGaussian, design_matrix

NOISE = 0.3


@pytest.fixture
def problem() -> tuple[WHVILinear, torch.Tensor, torch.Tensor, LinearGaussian]:
    """A WHVI layer with fixed scales: linear in g, so that its posterior is Gaussian."""
    torch.manual_seed(0)
    layer = WHVILinear(4, 1, bias=False, posterior="full").double()
    for scale in layer.scales.parameters():
        scale.requires_grad_(False)
    x, y = torch.randn(60, 4).double(), torch.randn(60, 1).double()
    oracle = LinearGaussian(design_matrix(layer, x), y.flatten(), NOISE, torch.eye(layer.g.mean.numel()).double())
    return layer, x, y, oracle


@pytest.mark.parametrize(("batch_size", "tolerance"), [(60, 1e-3), (20, 1e-2)])
def test_svi_with_a_full_gaussian_reaches_the_evidence(
    problem: tuple[WHVILinear, torch.Tensor, torch.Tensor, LinearGaussian], batch_size: int, tolerance: float
) -> None:
    layer, x, y, oracle = problem
    likelihood = Gaussian(variance=NOISE, learned=False).double()
    algorithm = SVI(0.05, schedule=lambda step: 0.998**step, samples=8)
    before = oracle.gap(layer.g.mean.detach(), _covariance(layer))
    fit(layer, likelihood, (x, y), steps=3500, algorithm=algorithm, batch_size=batch_size)
    mean, covariance = layer.g.mean.detach(), _covariance(layer)
    assert before > 1.0
    assert oracle.gap(mean, covariance) < tolerance  # nats between the bound and the evidence, exactly
    with torch.no_grad():
        one = vmap(lambda _: elbo(layer, likelihood, x, y, n_data=60).bound, randomness="different")
        bounds = one(torch.zeros(1000))
    assert abs(bounds.mean() - oracle.log_evidence()) < 4 * bounds.std() / 1000**0.5 + tolerance


def _covariance(layer: WHVILinear) -> torch.Tensor:
    root = layer.g.covariance_root().detach()
    return root @ root.mT
