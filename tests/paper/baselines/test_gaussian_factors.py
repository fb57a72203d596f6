"""Variational factors of low rank: W = A B^T with Gaussian A and B."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

import whvi.nn as wnn
from whvi.errors import ArgumentError, ShapeError
from whvi.nn import MeanFieldLinear
from whvi.testing.compare import assert_estimate, assert_moments, perturb
from whvi_paper.baselines import GaussianFactorsLinear

F64: dict[str, Any] = {"dtype": torch.float64}


def moments(layer: GaussianFactorsLinear, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of A (B^T x) + b by hand: z = B^T x is normal, and outputs share only z."""
    (a, a_var), (b, b_var), (c, c_var) = (
        (part.mean, (2 * part.log_std).exp()) for part in (layer.left, layer.right, layer.bias) if part is not None
    )
    z, z_var = b @ x, b_var @ x.square()
    spread = a_var @ (z.square() + z_var) + c_var
    return a @ z + c, a @ z_var.diag() @ a.mT + spread.diag()


def test_draws_of_outputs_have_the_exact_moments() -> None:
    """Jointly: outputs of one example share B^T x."""
    torch.manual_seed(0)
    layer = perturb(GaussianFactorsLinear(5, 3, 2, **F64))
    x = torch.randn(5, **F64)
    mean, covariance = moments(layer, x)
    assert covariance[0, 1].abs() > 0.05 * covariance.diagonal().mean()  # else the law would say little
    with torch.no_grad():
        together = layer(x.expand(40_000, 5))
        weights = layer.weight_at(layer.draw((40_000,)))
        bias = layer.bias_value(layer.draw((40_000,)))
        assert bias is not None
    assert_moments(together, mean, covariance)
    assert_moments(weights @ x + bias, mean, covariance)


def test_it_is_two_layers_of_mean_field_without_anything_between() -> None:
    """Mean and KL are those of the two layers."""
    layer = perturb(GaussianFactorsLinear(5, 3, 2, prior_variance=0.5, **F64))
    prior = (0.5 / 2) ** 0.5
    down = MeanFieldLinear(5, 2, False, prior_variance=prior, **F64)
    up = MeanFieldLinear(2, 3, prior_variance=prior, **F64)
    down.weights, up.weights, up.bias = layer.right, layer.left, layer.bias
    model, x = nn.Sequential(down, up), torch.randn(4, 5, **F64)
    torch.testing.assert_close(layer.kl(), wnn.kl(model), rtol=1e-12, atol=0)
    with wnn.mean_mode(nn.ModuleList([layer, model])):
        torch.testing.assert_close(layer(x), model(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"weight_variance": 0.3}], ids=str)
def test_variance_of_a_draw_at_the_start(options: dict[str, Any]) -> None:
    layers = (GaussianFactorsLinear(100, 80, 4, **options) for _ in range(60))
    means = [layer.weight_at(layer.draw((8,))).square().mean() for layer in layers]
    assert_estimate(torch.stack(means), torch.tensor(options.get("weight_variance", 2 / 100)), 4.0)


def test_variance_of_weights_under_the_prior() -> None:
    """Of the entries of W, whatever the rank; and the KL is that to this prior."""
    for rank in (1, 3):
        layer = GaussianFactorsLinear(30, 20, rank, prior_variance=0.5, **F64)
        left, right = (layer.prior.rsample((4000, *part.event_shape)) for part in (layer.left, layer.right))
        squares = (left @ right).square().mean((-2, -1))
        assert_estimate(squares, torch.tensor(0.5, dtype=squares.dtype), 4.0)
        factors = [
            kl_divergence(Normal(q.mean, q.log_std.exp()), Normal(0.0, (0.5 / rank) ** 0.25)).sum()
            for q in (layer.left, layer.right)
        ]
        assert layer.bias is not None
        bias = kl_divergence(Normal(layer.bias.mean, (-2.0 * torch.ones(20, **F64)).exp()), Normal(0.0, 1.0)).sum()
        torch.testing.assert_close(layer.kl(), torch.stack([*factors, bias]).sum())


def test_errors_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match="rank must be at least 1, got 0"):
        GaussianFactorsLinear(4, 4, 0)
    with pytest.raises(ArgumentError, match="out_features must be at least 1"):
        GaussianFactorsLinear(4, -1, 1)
    with pytest.raises(ArgumentError, match="prior_variance must be positive"):
        GaussianFactorsLinear(4, 4, 1, prior_variance=0.0)
    with pytest.raises(ArgumentError, match="weight_variance must be positive"):
        GaussianFactorsLinear(3, 4, 1, weight_variance=-1.0)
    with pytest.raises(ShapeError, match="in_features = 4"):
        GaussianFactorsLinear(4, 4, 1)(torch.zeros(4, 3))
