"""Gaussian processes by random features: the layer's laws, and the exact evidence."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import whvi
from whvi.errors import ArgumentError
from whvi.inference import SVI
from whvi.likelihoods import Categorical, Gaussian
from whvi.models import POSTERIORS, RandomFeatureGP
from whvi.posterior import FullGaussian
from whvi.testing import perturb
from whvi.testing.conjugate import LinearGaussian, design_matrix

F64: dict[str, Any] = {"dtype": torch.float64}
NOISE = 0.1


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_draw_is_a_linear_function_of_the_features(posterior: str) -> None:
    gp = perturb(RandomFeatureGP(3, 16, 2, posterior=posterior, **F64))
    x = torch.randn(5, 3, **F64)
    with whvi.sampling(gp) as draws:
        draw = draws[gp.weights]
        assert draw is not None
        assert_close(gp(x), gp.phi(x) @ gp.weights.weight_at(draw).mT)


@pytest.mark.parametrize(
    ("posterior", "count"),
    [("mean-field", 2 * 64), ("full", 64 * 67 // 2), ("whvi", 4 * 8), ("whvi-full", 2 * 8 + 8 * 11 // 2)],
)
def test_parameters_of_each_output(posterior: str, count: int) -> None:
    for outputs in (1, 3):
        gp = RandomFeatureGP(3, 64, outputs, posterior=posterior)
        assert sum(p.numel() for p in gp.weights.parameters()) == outputs * count


def problem(posterior: str) -> tuple[RandomFeatureGP, LinearGaussian]:
    """A GP with fixed features, and the linear-Gaussian problem that inference over its g (or w) is."""
    torch.manual_seed(3)
    gp = RandomFeatureGP(2, 16, posterior=posterior, learn=False, **F64)
    x = torch.rand(12, 2, **F64)
    y = (3.0 * x).sin().sum(1)
    phi = gp.phi(x).detach()
    design = phi if posterior == "full" else design_matrix(gp.weights, phi)
    return gp, LinearGaussian(design, y, NOISE, torch.eye(design.shape[1], **F64))


def bound(gp: RandomFeatureGP, exact: LinearGaussian) -> Tensor:
    """The ELBO: the expectation in closed form for the moments of the layer's own posterior, and the layer's own KL."""
    law = gp.weights.weights if hasattr(gp.weights, "weights") else gp.weights.g
    assert isinstance(law, FullGaussian)
    root = law.covariance_root().reshape(exact.design.shape[1], -1)
    return exact.expected_log_likelihood(law.mean.flatten(), root @ root.mT) - gp.weights.kl()


@pytest.mark.parametrize("posterior", ["full", "whvi-full"])
def test_bound_reaches_the_evidence_of_the_family(posterior: str) -> None:
    """With a full covariance the exact posterior is in the family: the best bound is the evidence."""
    gp, exact = problem(posterior)
    scales = [p for p in gp.weights.parameters() if p.shape[-1:] != ()]
    law = gp.weights.weights if posterior == "full" else gp.weights.g
    learned = list(law.parameters())
    assert len(scales) >= len(learned)
    evidence = exact.log_evidence()
    assert bound(gp, exact) < evidence - 1.0
    optimizer = torch.optim.LBFGS(
        learned, max_iter=500, tolerance_grad=1e-12, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -bound(gp, exact)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert_close(bound(gp, exact), evidence, atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_regression_through_the_library(posterior: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(200, 2)
    y = torch.stack(((6 * x[:, 0]).sin(), x.sum(1)), 1)
    gp = RandomFeatureGP(2, 64, 2, posterior=posterior, lengthscale=0.5)
    likelihood = Gaussian(2, variance=0.01)
    whvi.fit(gp, likelihood, (x, y), steps=400, algorithm=SVI(3e-2), seed=0)
    assert float(whvi.predict(gp, x, 16, likelihood=likelihood, seed=0).rmse(y)) < 0.3


def test_classification_through_the_library() -> None:
    torch.manual_seed(0)
    x = torch.rand(200, 2)
    y = (x.sum(1) > 1).long() + (x.sum(1) > 1.4).long()
    gp = RandomFeatureGP(2, 64, 3, projection="orthogonal", lengthscale=0.5)
    whvi.fit(gp, Categorical(3), (x, y), steps=400, algorithm=SVI(3e-2), seed=0)
    probabilities = whvi.predict(gp, x, 16, likelihood=Categorical(3), seed=0).mean
    assert float((probabilities.argmax(1) == y).float().mean()) > 0.85


def test_a_number_that_needs_padding_is_told_once() -> None:
    with pytest.warns(UserWarning, match="100 features are not the square of a power of two"):
        RandomFeatureGP(2, 100)
    RandomFeatureGP(2, 100, posterior="mean-field")  # has no matrix to pad


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="posterior 'vi' is unknown; use one of: mean-field, full"):
        RandomFeatureGP(2, 64, posterior="vi")
    with pytest.raises(ArgumentError, match="no rows"):
        whvi.fit(RandomFeatureGP(2, 64), Gaussian(), (torch.zeros(0, 2), torch.zeros(0, 1)), steps=1)
