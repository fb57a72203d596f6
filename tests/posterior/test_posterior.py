"""Posteriors: the shipped contract for every kind, and every KL against a million draws."""

from math import prod

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from whvi.ops.reference import hadamard
from whvi.posterior import GaussianPrior, PlanarFlow, Posterior, make_posterior
from whvi.posterior.prior import SpectralPrior
from whvi.testing import PosteriorContract, PriorCase, assert_close, assert_estimate, perturb
from whvi.testing.posterior import draws_with_density, log_ratios

GAUSSIANS = ("diagonal", "low_rank:1", "low_rank:2", "full")
FLOWS = ("planar:1", "planar:3", "planar:2:full", "planar:2:low_rank:2")
SHAPES = ((4,), (3, 2), (1,))


def make(spec: str, shape: tuple[int, ...]) -> Posterior:
    """A posterior with no special values, and flows that bend."""
    torch.manual_seed(prod(shape))
    posterior = make_posterior(spec, torch.randn(shape, dtype=torch.float64), log_std=-0.5)
    perturb(posterior)
    if isinstance(posterior, PlanarFlow):
        perturb(posterior, 0.5, seed=1)
    return posterior


def name_of(case: tuple[str, tuple[int, ...]]) -> str:
    return f"{case[0]}-{'x'.join(map(str, case[1]))}"


def spectral(shape: tuple[int, ...], own: bool) -> PriorCase:
    """P = H diag(spectrum) H, one for all vectors or one for each."""
    size = shape[-1]
    generator = torch.Generator().manual_seed(7)
    lead = shape if own else shape[-1:]
    spectrum = torch.rand(lead, generator=generator, dtype=torch.float64) + 0.5
    transform = hadamard(size) * size**-0.5
    return PriorCase(SpectralPrior(spectrum), transform @ torch.diag_embed(spectrum) @ transform)


class EveryPrior(PosteriorContract):
    def prior_cases(self, posterior: Posterior) -> list[PriorCase]:
        shape = posterior.event_shape
        return [*super().prior_cases(posterior), spectral(shape, own=False), spectral(shape, own=True)]


class TestGaussian(EveryPrior):
    @pytest.fixture(params=[(s, e) for s in GAUSSIANS for e in SHAPES], ids=name_of)
    def posterior(self, request: pytest.FixtureRequest) -> Posterior:
        return make(*request.param)

    def test_kl_is_that_of_torch(self, posterior: Posterior) -> None:
        """To every digit: a million draws would not see a small error in a logarithm."""
        root = posterior.covariance_root()
        law = MultivariateNormal(posterior.mean, root @ root.mT)
        for prior, covariance in self.prior_cases(posterior):
            expected = kl_divergence(law, MultivariateNormal(torch.zeros_like(posterior.mean), covariance)).sum()
            assert_close(posterior.kl(prior), expected, 1e-12)


class TestPlanarFlow(EveryPrior):
    analytic = False

    @pytest.fixture(params=[(s, e) for s in FLOWS for e in SHAPES], ids=name_of)
    def posterior(self, request: pytest.FixtureRequest) -> Posterior:
        return make(*request.param)


class TestPoint(PosteriorContract):
    analytic = None

    @pytest.fixture
    def posterior(self) -> Posterior:
        return make("point", (3, 2))


@pytest.mark.parametrize("spec", ["diagonal", "low_rank:2", "full", "planar:2", "planar:2:full"])
def test_kl_against_a_million_draws(spec: str) -> None:
    """Two vectors of two elements, with a prior whose covariance is not diagonal."""
    posterior = make(spec, (2, 2))
    prior, covariance = spectral((2, 2), own=True)
    (values,) = log_ratios(draws_with_density, posterior, [covariance], 10**6)
    if isinstance(posterior, PlanarFlow):
        posterior.kl_samples = 5000
        with torch.no_grad():
            calls = torch.stack([posterior.kl(prior) for _ in range(200)])
        assert_estimate(values, calls.mean(), other=calls.std() * len(calls) ** -0.5)
    else:
        assert_estimate(values, posterior.kl(prior))
    error = float(values.std()) * 1e-3
    assert error < 0.01 * float(values.mean()), "too coarse to see a wrong term"


@pytest.mark.parametrize("spec", ["diagonal", "low_rank:2", "full", "planar:2"])
def test_the_device_of_the_mean_is_that_of_all(spec: str) -> None:
    """Whatever torch's default is."""
    mean = torch.zeros(4)
    with torch.device("meta"):
        posterior = make_posterior(spec, mean)
    assert {parameter.device.type for parameter in posterior.parameters()} == {"cpu"}


def test_kl_of_independent_vectors_is_the_sum() -> None:
    """K vectors in one posterior have K terms, not one and not their mean."""
    whole = make("full", (3, 4))
    parts = [make("full", (4,)) for _ in range(3)]
    for number, part in enumerate(parts):
        with torch.no_grad():
            for name, value in part.named_parameters():
                value.copy_(whole.get_parameter(name)[number])
    expected = sum(part.kl(GaussianPrior(2.0)) for part in parts)
    assert isinstance(expected, torch.Tensor)
    assert_close(whole.kl(GaussianPrior(2.0)), expected, 1e-12)
