"""Priors: fixed, learned, and the one that gives the weights a constant variance."""

import pytest
import torch
from torch import Tensor

from whvi.errors import ArgumentError, InputTypeError
from whvi.nn import WHVIConv2d, WHVILinear
from whvi.ops.reference import hadamard
from whvi.posterior import ConstantWeightVariance, DiagonalGaussian, GaussianPrior, make_posterior
from whvi.posterior.prior import SpectralPrior
from whvi.testing import DensePrior, assert_close, assert_estimate, assert_moments, perturb


def rand(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def test_a_variance_is_a_variance() -> None:
    """KL of N(0, v) to the prior of variance v is zero, and draws have that variance."""
    q = DiagonalGaussian(torch.zeros(3, dtype=torch.float64), log_std=0.5 * torch.tensor(0.3).log().item())
    assert abs(q.kl(GaussianPrior(0.3)).item()) < 1e-7
    draws = GaussianPrior(0.3).rsample((20_000,)).double()
    assert_estimate(draws.square(), torch.tensor(0.3, dtype=torch.float64))


def test_the_gradient_of_a_learned_variance() -> None:
    """d KL / d log v = (n - E|z|^2 / v) / 2, zero at v = E|z|^2 / n."""
    q, prior = perturb(DiagonalGaussian(rand(2, 5))), GaussianPrior(0.4, learned=True).double()
    q.kl(prior).backward()
    assert prior.log_variance is not None
    assert prior.log_variance.grad is not None
    second = (q.mean.square() + (2 * q.log_std).exp()).sum().detach()
    expected = 0.5 * (10 - second / 0.4)
    assert abs(float(prior.log_variance.grad - expected)) < 1e-6  # 0.4 is stored as a float32 logarithm
    with torch.no_grad():
        prior.log_variance.copy_((second / 10).log())
    prior.log_variance.grad = None
    q.kl(prior).backward()
    assert abs(float(prior.log_variance.grad)) < 1e-10


def test_a_fixed_and_a_learned_variance_agree() -> None:
    q = perturb(make_posterior("low_rank:2", rand(4)))
    assert isinstance(q, torch.nn.Module)
    fixed, learned = GaussianPrior(2.0), GaussianPrior(2.0, learned=True).double()
    assert_close(q.kl(learned), q.kl(fixed), 1e-6)


def test_draws_are_where_a_learned_variance_is() -> None:
    assert GaussianPrior(1.0, learned=True).to("meta").rsample((3,)).device.type == "meta"


def test_the_spectral_prior_is_its_dense_covariance() -> None:
    spectrum = torch.rand(8, dtype=torch.float64) + 0.5
    transform = hadamard(8) * 8**-0.5
    covariance = transform @ torch.diag(spectrum) @ transform
    prior, z = SpectralPrior(spectrum), rand(5, 8)
    assert_close(prior.quadratic(z), torch.einsum("ni,ij,nj->n", z, covariance.inverse(), z), 1e-12)
    assert_close(prior.trace(z), (covariance.inverse().diagonal() * z.square()).sum(-1), 1e-12)
    assert_close(torch.as_tensor(prior.log_det((3, 8))), 3 * torch.logdet(covariance), 1e-12)
    draws = prior.rsample((20_000, 8))
    assert_moments(draws, torch.zeros(8, dtype=torch.float64), covariance)


def weights_under_the_prior(layer: WHVILinear, count: int = 20_000) -> Tensor:
    """Draws of W when g comes from its prior: (count, out, in)."""
    prior = layer.prior.given(layer.gain)
    g = prior.rsample((count, *layer.g.event_shape))
    return layer.matrix(None).dense(g).detach()


def constant(layer: WHVILinear) -> WHVILinear:
    """Scales of constant size and random signs."""
    with torch.no_grad():
        for scale in layer.scales:
            scale.mean.copy_(0.6 * scale.mean.sign())
    return layer


@pytest.mark.parametrize("share_g", [True, False])
def test_every_weight_has_the_variance_when_scales_have_constant_size(share_g: bool) -> None:
    prior = ConstantWeightVariance(0.25)
    layer = constant(WHVILinear(4, 8, prior_variance=prior, share_g=share_g, dtype=torch.float64))
    weights = weights_under_the_prior(layer)
    assert_estimate(weights.square(), torch.full((8, 4), 0.25, dtype=torch.float64), 4.5)


@pytest.mark.parametrize("share_g", [True, False])
def test_the_mean_variance_on_each_xor_set_for_any_scales(share_g: bool) -> None:
    """Over the entries i xor j = m of a block; and of all blocks, where they share one g."""
    layer = WHVILinear(4, 8, prior_variance=ConstantWeightVariance(0.25), share_g=share_g, dtype=torch.float64)
    blocks = weights_under_the_prior(layer).unflatten(1, (2, 4)).square()
    index = torch.arange(4)
    distance = index[:, None] ^ index
    means = torch.stack([blocks[..., distance == m].mean(-1) for m in range(4)], -1)  # (count, K, D)
    means = means.mean(1) if share_g else means
    assert_estimate(means, torch.full_like(means[0], 0.25), 4.5)


@pytest.mark.parametrize("posterior", ["diagonal", "low_rank:2", "full", "planar:2"])
@pytest.mark.parametrize("share_g", [True, False])
def test_the_kl_of_a_layer_under_constant_weight_variance(posterior: str, share_g: bool) -> None:
    """A scalar that equals the KL to the same law written as a dense covariance, with as many blocks as elements."""
    layer = WHVILinear(
        4, 16, False, posterior=posterior, prior_variance=ConstantWeightVariance(0.1), share_g=share_g,
        dtype=torch.float64,
    )  # fmt: skip
    perturb(layer)
    spectrum = 0.1 / layer.gain()
    transform = hadamard(4) / 2.0
    values = []
    for term in (layer.kl, lambda: layer.g.kl(DensePrior(transform @ torch.diag_embed(spectrum) @ transform))):
        torch.manual_seed(0)
        values.append(term())
    assert values[0].shape == ()
    assert_close(values[0], values[1], 1e-10)


def test_constant_weight_variance_in_a_grouped_convolution() -> None:
    """One g for all groups has one prior: its KL is a scalar."""
    layer = WHVIConv2d(4, 4, 2, groups=2, prior_variance=ConstantWeightVariance(0.1), dtype=torch.float64)
    assert layer.kl().shape == ()
    own = WHVIConv2d(4, 4, 2, groups=2, prior_variance=ConstantWeightVariance(0.1), share_g=False, dtype=torch.float64)
    assert own.kl().shape == ()


def test_errors_name_what_is_wrong() -> None:
    for value in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ArgumentError, match="variance must be positive"):
            GaussianPrior(value)
        with pytest.raises(ArgumentError, match="variance must be positive"):
            ConstantWeightVariance(value)
    with pytest.raises(InputTypeError, match="variance must be a number, got str"):
        GaussianPrior("1")  # type: ignore[arg-type]
    unresolved, z = ConstantWeightVariance(1.0), torch.zeros(2)
    for call in (
        lambda: unresolved.quadratic(z),
        lambda: unresolved.trace(z),
        lambda: unresolved.log_det((2,)),
        lambda: unresolved.rsample((2,)),
    ):
        with pytest.raises(ArgumentError, match="given"):
            call()
