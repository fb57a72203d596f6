"""Mean-field layers: outputs drawn directly have the law that independent weights give them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

import whvi.nn as wnn
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError
from whvi.nn import Draw, FullCovarianceLinear, MeanFieldConv2d, MeanFieldLinear
from whvi.nn.base import BayesianLayer
from whvi.posterior import GaussianPrior
from whvi.testing.compare import assert_estimate, perturb

MANY = 20_000


def linear_case() -> tuple[MeanFieldLinear, Tensor]:
    return MeanFieldLinear(5, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)


def conv_case() -> tuple[MeanFieldConv2d, Tensor]:
    layer = MeanFieldConv2d(2, 4, (3, 2), stride=2, padding=1, groups=2, padding_mode="circular", dtype=torch.float64)
    return layer, torch.randn(2, 4, 5, dtype=torch.float64)


def full_case() -> tuple[FullCovarianceLinear, Tensor]:
    return FullCovarianceLinear(5, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)


@pytest.mark.parametrize("case", [linear_case, conv_case, full_case])
def test_outputs_have_the_law_of_explicit_weights(case: Any) -> None:
    layer, x = case()
    perturb(layer)
    copies = x.expand(MANY, *x.shape)
    outputs = layer(copies)
    with wnn.sampling(layer, MANY):
        explicit = layer(copies)
    for power in (1, 2):
        a, b = outputs.pow(power), explicit.pow(power)
        assert_estimate(a, b.mean(0), 4.5, other=b.std(0) / math.sqrt(MANY), what=f"moment {power}")


def test_outputs_of_an_example_are_independent_and_examples_differ() -> None:
    layer, x = linear_case()
    outputs = layer(x.expand(MANY, -1)) - layer.weight_at() @ x
    assert_estimate(outputs[:, 0] * outputs[:, 1], torch.zeros((), dtype=torch.float64))
    assert_estimate(outputs[::2, 0] * outputs[1::2, 0], torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("case", [linear_case, conv_case])
def test_moments_in_closed_form(case: Any) -> None:
    layer, x = case()
    perturb(layer)
    mean, std = layer.weights.mean.reshape(layer.weight_shape), layer.weights.log_std.exp().reshape(layer.weight_shape)
    if isinstance(layer, MeanFieldLinear):
        centre, variance = mean @ x, std.square() @ x.square()
        bias, spread = layer.bias.mean, layer.bias.log_std
    else:
        options: dict[str, Any] = {"stride": 2, "groups": 2}
        padded = functional.pad(x[None], (1, 1, 1, 1), "circular")
        centre = functional.conv2d(padded, mean, **options)[0]
        variance = functional.conv2d(padded.square(), std.square(), **options)[0]
        bias, spread = layer.bias.mean[:, None, None], layer.bias.log_std[:, None, None]
    outputs = layer(x.expand(MANY, *x.shape))
    assert_estimate(outputs, centre + bias, 4.5)
    assert_estimate((outputs - centre - bias).square(), variance + (2 * spread).exp(), 4.5)


@pytest.mark.parametrize("case", [linear_case, conv_case])
@pytest.mark.parametrize("variance", [1.0, 0.3])
def test_kl_is_that_of_torch(case: Any, variance: float) -> None:
    layer, _ = case()
    layer.prior = GaussianPrior(variance)
    perturb(layer)
    expected = sum(
        kl_divergence(Normal(q.mean, q.log_std.exp()), Normal(0.0, v**0.5)).sum()
        for q, v in ((layer.weights, variance), (layer.bias, 1.0))
    )
    torch.testing.assert_close(layer.kl(), expected)


@pytest.mark.parametrize("case", [linear_case, conv_case])
def test_gradient_at_zero_input_is_finite(case: Any) -> None:
    layer, x = case()
    zero = torch.zeros(4, *x.shape, dtype=x.dtype, requires_grad=True)
    y = layer(zero)
    for gradient in torch.autograd.grad(y.square().sum(), [zero, *layer.parameters()]):
        assert gradient.isfinite().all()


def test_a_fixed_draw_for_each_example_repeats() -> None:
    layer, _ = linear_case()
    x = torch.randn(6, 5, dtype=torch.float64)
    with wnn.sampling(layer, "example"):
        first = layer(x)
        assert torch.equal(first, layer(x))
        assert torch.equal(first[:4], layer(x[:4]))
    with pytest.raises(ArgumentError, match="one for each example"):
        layer.weight_at(layer.draw(None))
    assert layer.weight_at(layer.draw((6,))).shape == (6, 3, 5)


@pytest.mark.parametrize(("size", "weight_variance"), [(4096, None), (64, None), (64, 0.25)])
def test_start(size: int, weight_variance: float | None) -> None:
    layer = MeanFieldLinear(size, 200, weight_variance=weight_variance)
    variance = weight_variance or 1 / size
    assert layer.weights.mean.var().item() == pytest.approx(variance, rel=0.05)
    assert layer.weights.log_std[0, 0].item() == pytest.approx(0.5 * math.log(variance) - 2.0)


@pytest.mark.parametrize("bias", [True, False, "point", "full"])
def test_bias(bias: bool | str) -> None:
    x = torch.randn(4, 3, 6, 6)
    layers: list[tuple[BayesianLayer, Tensor]] = [
        (MeanFieldLinear(6, 2, bias), x),
        (MeanFieldConv2d(3, 2, 3, bias=bias), x),
    ]
    for layer, inputs in layers:
        assert layer(inputs).isfinite().all()
        draw = layer.draw((5,))
        value = layer.bias_value(draw)
        assert (value is None) if bias is False else (value is not None and value.shape == (5, 2))
        assert len(layer.kl_terms()) == (1 if bias in (False, "point") else 2)


def test_parameters_are_twice_those_of_a_plain_layer() -> None:
    for layer, plain in (
        (MeanFieldLinear(7, 5), nn.Linear(7, 5)),
        (MeanFieldConv2d(4, 6, 3, groups=2), nn.Conv2d(4, 6, 3, groups=2)),
    ):
        assert sum(p.numel() for p in layer.parameters()) == 2 * sum(p.numel() for p in plain.parameters())
        assert set(layer.state_dict()) == {"weights.mean", "weights.log_std", "bias.mean", "bias.log_std"}


def test_errors_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match="in_features must be at least 1, got 0"):
        MeanFieldLinear(0, 1)
    with pytest.raises(InputTypeError, match=r"out_features must be an int, got 2\.0"):
        MeanFieldLinear(1, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="groups"):
        MeanFieldConv2d(3, 4, 3, groups=2)
    with pytest.raises(ArgumentError, match="draws must be"):
        MeanFieldConv2d(3, 4, 3, draws="both")
    with pytest.raises(ArgumentError, match="weight_variance must be positive"):
        MeanFieldLinear(3, 4, weight_variance=0.0)
    with pytest.raises(ShapeError, match="in_features = 3"):
        MeanFieldLinear(3, 4)(torch.zeros(3, 4))
    with pytest.raises(ShapeError, match="in_channels = 3"):
        MeanFieldConv2d(3, 4, 3)(torch.zeros(4, 4, 4))
    with pytest.raises(DtypeError, match="float64"):
        MeanFieldLinear(3, 4)(torch.zeros(3, dtype=torch.float64))


def test_one_draw_for_an_example_alone() -> None:
    layer, x = linear_case()
    with wnn.sampling(layer) as draws:
        draw = draws[layer]
        assert isinstance(draw, Draw)
        bias = layer.bias_value(draw)
        assert bias is not None
        torch.testing.assert_close(layer(x), layer.weight_at(draw) @ x + bias)


@pytest.mark.parametrize(("x", "std"), [(0.0, 0.0), (1e-3, 1.353e-4), (300.0, 40.6)])
def test_local_noise_leaves_the_range_of_half_precision(x: float, std: float) -> None:
    torch.manual_seed(0)
    layer = MeanFieldLinear(4, 1, bias=False)
    nn.init.zeros_(layer.weights.mean)
    with torch.autocast("cpu", torch.float16):
        y = layer(torch.full((20_000, 4), x)).detach()
    assert y.dtype == torch.float16
    assert float(y.float().std()) == pytest.approx(std, rel=0.03, abs=1e-12)
