"""Monte Carlo dropout: a draw is a weight with columns of zeros, and its KL is that of the weights that are kept."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import whvi.nn as wnn
from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.nn import MCDropout
from whvi.nn.dropout import Dropout
from whvi.testing.compare import assert_estimate, perturb
from whvi_paper.baselines import LowRankMCDropoutConv2d

Case = Callable[[float], tuple[Dropout, Tensor]]


def linear_case(p: float) -> tuple[Dropout, Tensor]:
    return MCDropout(nn.Linear(6, 3, dtype=torch.float64), p, prior_variance=0.7), torch.randn(6, dtype=torch.float64)


def conv_case(p: float) -> tuple[Dropout, Tensor]:
    plain = nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, padding_mode="circular", dtype=torch.float64)
    return MCDropout(plain, p, prior_variance=0.7), torch.randn(4, 4, 5, dtype=torch.float64)


def low_rank_case(p: float) -> tuple[Dropout, Tensor]:
    layer = LowRankMCDropoutConv2d(4, 6, 3, 2, padding="same", p=p, prior_variance=0.7, dtype=torch.float64)
    return layer, torch.randn(4, 4, 5, dtype=torch.float64)


CASES = [linear_case, conv_case, low_rank_case]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("training", [True, False])
def test_the_mean_of_the_draws_is_the_plain_layer(case: Case, training: bool) -> None:
    layer, x = case(0.3)
    layer.train(training)
    with wnn.mean_mode(layer):
        mean = layer(x)
        assert torch.equal(mean, layer(x))
    outputs = layer(x.expand(20_000, *x.shape))
    assert_estimate(outputs, mean, 4.5)
    assert (outputs.std(0) > 0).all()


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_probability_and_independence_of_the_mask(p: float) -> None:
    layer, _ = linear_case(p)
    mask = layer.mask(layer.draw((50_000,)), torch.float64)
    kept = (mask > 0).double()
    assert_estimate(kept, torch.full((6,), 1 - p, dtype=torch.float64), 4.5)
    assert_estimate(kept[:, :3] * kept[:, 3:], torch.full((3,), (1 - p) ** 2, dtype=torch.float64), 4.5)
    torch.testing.assert_close(mask[mask > 0], torch.full((int(kept.sum()),), 1 / (1 - p), dtype=torch.float64))


def test_the_kl_of_weights_that_are_zero_is_curved() -> None:
    """keep / (2 v) |W / keep|^2 has the Hessian 1 / (keep v) everywhere, at zero too."""
    layer, _ = linear_case(0.2)

    def of(weight: Tensor) -> Tensor:
        return layer.kl_term(weight, None, layer.keep)

    found = torch.autograd.functional.hessian(of, torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(found, torch.eye(2, dtype=torch.float64) / (0.8 * 0.7))


def test_the_kl_of_a_large_layer_is_exact() -> None:
    weight = torch.full((1 << 22,), 0.1)
    layer, _ = linear_case(0.0)
    exact = weight.double().square().sum() * (0.5 / 0.7)
    torch.testing.assert_close(layer.kl_term(weight, None, 1.0).double(), exact, rtol=1e-5, atol=0.0)


def test_whole_channels_are_dropped() -> None:
    layer, _ = conv_case(0.5)
    dropped = (layer.weight_at(layer.draw((40,))) == 0).unflatten(1, (2, 3))  # (draw, group, output, input, kernel)
    same = dropped.all(-1).all(-1).all(2)
    assert torch.equal(same, dropped.any(-1).any(-1).any(2))
    assert 0.2 < same.double().mean() < 0.8


@pytest.mark.parametrize("case", [linear_case, conv_case])
@pytest.mark.parametrize("p", [0.0, 0.2, 0.6])
def test_kl_is_the_expected_penalty_of_a_draw(case: Case, p: float) -> None:
    layer, _ = case(p)
    draw = layer.draw((20_000,))
    bias = layer.bias_value(draw)
    assert bias is not None
    penalty = layer.weight_at(draw).square().flatten(1).sum(1) + bias.square().sum(-1)
    assert_estimate(penalty / (2 * 0.7), layer.kl())


def test_kl_of_the_two_factors() -> None:
    layer, _ = low_rank_case(0.2)
    assert isinstance(layer, LowRankMCDropoutConv2d)
    perturb(layer)
    assert layer.bias is not None
    mixing, filters, bias = (part.mean.square().sum() for part in (layer.mixing, layer.filters, layer.bias))
    torch.testing.assert_close(layer.kl(), (mixing / 0.8 + bias + filters) / (2 * 0.7))


def test_a_layer_that_is_wrapped_twice_counts_once() -> None:
    plain = nn.Linear(4, 4)
    once, twice = MCDropout(plain), nn.Sequential(MCDropout(plain), nn.ReLU(), MCDropout(plain))
    assert wnn.kl(twice) == once.kl()
    assert wnn.kl(twice) > 0


@pytest.mark.parametrize("case", CASES)
def test_no_dropout_is_the_plain_layer(case: Case) -> None:
    layer, x = case(0.0)
    batch = x.expand(3, *x.shape)
    with wnn.mean_mode(layer):
        expected = layer(batch)
    assert torch.equal(layer(batch), expected)
    torch.testing.assert_close(layer.weight_at(layer.draw((2,)))[1], layer.weight_at(), rtol=1e-14, atol=1e-14)


def test_wrapping_keeps_the_parameters() -> None:
    plain = nn.Linear(4, 2)
    layer = MCDropout(plain, 0.5)
    assert list(layer.parameters()) == list(plain.parameters())
    assert set(layer.state_dict()) == {"layer.weight", "layer.bias"}
    assert MCDropout(nn.Linear(4, 2, bias=False)).bias_value() is None
    assert LowRankMCDropoutConv2d(4, 2, 3, 2, bias=False).bias_value() is None


@pytest.mark.parametrize("weight_variance", [None, 0.3])
def test_start_of_the_low_rank_layer(weight_variance: float | None) -> None:
    layer = LowRankMCDropoutConv2d(16, 300, 3, 20, p=0.0, weight_variance=weight_variance)
    assert layer.weight_at().var().item() == pytest.approx(weight_variance or 2 / (16 * 9), rel=0.2)


def test_errors_name_the_argument() -> None:
    for p in (-0.1, 1.0, math.nan):
        with pytest.raises(ArgumentError, match="p must be"):
            MCDropout(nn.Linear(2, 2), p)
    with pytest.raises(InputTypeError, match="p must be a number"):
        MCDropout(nn.Linear(2, 2), "half")  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match=r"nn\.Linear or an nn\.Conv2d, got ReLU"):
        MCDropout(nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="prior variance must be positive"):
        MCDropout(nn.Linear(2, 2), prior_variance=0.0)
    with pytest.raises(ArgumentError, match="groups must be 1"):
        LowRankMCDropoutConv2d(4, 4, 3, 2, groups=2)
    with pytest.raises(ArgumentError, match="rank must be at least 1"):
        LowRankMCDropoutConv2d(4, 4, 3, 0)
    with pytest.raises(ArgumentError, match="out_channels must be at least 1"):
        LowRankMCDropoutConv2d(4, 0, 3, 1)
    with pytest.raises(ShapeError, match="in_features = 2"):
        MCDropout(nn.Linear(2, 2))(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match="in_channels = 4"):
        MCDropout(nn.Conv2d(4, 2, 3))(torch.zeros(2, 5, 5))
    with pytest.raises(ArgumentError, match="one for each example"):
        MCDropout(nn.Linear(2, 2)).weight_at(MCDropout(nn.Linear(2, 2)).draw(None))


def test_print() -> None:
    layer = LowRankMCDropoutConv2d(4, 6, 3, 2, padding="same")
    assert "4, 6, rank=2, kernel_size=(3, 3), stride=(1, 1), padding='same', p=0.1, draws='example'" in repr(layer)
