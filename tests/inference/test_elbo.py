"""The bound: its two parts, its one factor, and that it is a bound."""

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.inference import CyclicWarmup, LinearWarmup, elbo
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.testing.conjugate import LinearGaussian, design_matrix

N, M = 40, 10


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 4, generator=generator).double(), torch.randn(N, 1, generator=generator).double()


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(WHVILinear(4, 8), nn.ReLU(), MeanFieldLinear(8, 1)).double()


def test_parts_are_what_they_are_called(model: nn.Module, data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    likelihood = Gaussian().double()
    torch.manual_seed(1)
    log_likelihood, kl = elbo(model, likelihood, x, y, n_data=N)
    torch.manual_seed(1)
    expected = likelihood.log_prob(model(x), y).sum()
    torch.testing.assert_close(log_likelihood, expected)
    torch.testing.assert_close(kl, whvi.kl(model))


def test_a_batch_counts_for_all_rows(model: nn.Module, data: tuple[Tensor, Tensor]) -> None:
    """The mean over the batches of a pass is the value for all rows: N / M times the sum of a batch."""
    x, y = data
    likelihood = Gaussian().double()
    with whvi.sampling(model):
        parts = [elbo(model, likelihood, x[i : i + M], y[i : i + M], n_data=N) for i in range(0, N, M)]
        whole = elbo(model, likelihood, x, y, n_data=N)
    torch.testing.assert_close(torch.stack([p.log_likelihood for p in parts]).mean(), whole.log_likelihood)
    for part in parts:
        torch.testing.assert_close(part.kl, whole.kl)  # never divided by anything


def test_beta_weighs_the_objective_and_not_the_bound(model: nn.Module, data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    parts = elbo(model, Gaussian().double(), x, y, n_data=N, kl_weight=LinearWarmup(10), step=3)
    assert parts.kl_weight == pytest.approx(0.3)
    torch.testing.assert_close(parts.objective, parts.log_likelihood - 0.3 * parts.kl)
    torch.testing.assert_close(parts.bound, parts.log_likelihood - parts.kl)
    assert elbo(
        model, Gaussian().double(), x, y, n_data=N, kl_weight=CyclicWarmup(4), step=5
    ).kl_weight == pytest.approx(0.5)


def test_samples_are_averaged(model: nn.Module, data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    likelihood = Gaussian().double()
    torch.manual_seed(0)
    with torch.no_grad():
        many = torch.stack([elbo(model, likelihood, x, y, n_data=N, samples=50).log_likelihood for _ in range(40)])
        few = torch.stack([elbo(model, likelihood, x, y, n_data=N).log_likelihood for _ in range(2000)])
    error = (many.var() / 40 + few.var() / 2000).sqrt()
    assert abs(many.mean() - few.mean()) < 4 * error
    assert many.var() < few.var() / 20  # fifty draws, a fiftieth of the variance


def test_it_is_a_bound(data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    torch.manual_seed(2)
    layer = WHVILinear(4, 1, bias=False, posterior="full").double()
    likelihood = Gaussian(variance=0.5, learned=False).double()
    size = layer.g.mean.numel()
    problem = LinearGaussian(design_matrix(layer, x), y.flatten(), 0.5, torch.eye(size).double())
    with torch.no_grad():
        bounds = torch.stack([elbo(layer, likelihood, x, y, n_data=N).bound for _ in range(2000)])
    error = bounds.std() / 2000**0.5
    assert bounds.mean() < problem.log_evidence()
    root = layer.g.covariance_root().detach()
    exact = problem.elbo(layer.g.mean.detach(), root @ root.mT)
    assert abs(bounds.mean() - exact) < 4 * error
