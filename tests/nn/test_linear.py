"""WHVILinear and WHVIColumn beyond their contracts: counts, extreme shapes, initial scale, refusals."""

from typing import Any

import pytest
import torch
from torch import nn

import whvi
from whvi.nn import MeanFieldLinear, WHVIColumn, WHVILinear
from whvi.testing import cover_pairs

FLAT = whvi.posterior.ConstantWeightVariance(0.1)


def count(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


def toy(posterior: str) -> int:
    noise_variance = 1
    hidden = [WHVILinear(1, 128, posterior=posterior), WHVILinear(128, 128, posterior=posterior)]
    return count(*hidden, MeanFieldLinear(128, 1)) + noise_variance


def alexnet(linear: type[nn.Module], **options: Any) -> int:
    channels = [(3, 64), (64, 192), (192, 384), (384, 256), (256, 256)]
    features = [(1024, 4096), (4096, 4096), (4096, 10)]
    convolutions = [nn.Conv2d(a, b, 3, device="meta") for a, b in channels]
    return count(*convolutions, *(linear(a, b, device="meta", **options) for a, b in features))


def test_parameter_counts_are_those_of_the_paper() -> None:
    assert toy("diagonal") == 1541
    assert toy("planar:10") == 4141
    assert alexnet(nn.Linear) == 23_272_266
    assert alexnet(WHVILinear, pad_to="power_of_two") == 2_310_996
    assert alexnet(WHVILinear, posterior="planar:3", pad_to="power_of_two") == 2_366_301


def test_a_column_costs_the_square_root() -> None:
    counts = [count(WHVIColumn(4**k, bias=False)) for k in (4, 5, 6)]
    assert counts == [4 * 2**k for k in (4, 5, 6)]


@pytest.mark.parametrize(
    ("in_features", "out_features", "size", "blocks"),
    [(1, 1, 1, 1), (1, 128, 1, 128), (128, 128, 128, 1), (13, 50, 16, 4), (4096, 10, 4096, 1), (3, 8, 4, 2)],
)
def test_dimensions_follow_the_algorithm_of_the_paper(
    in_features: int, out_features: int, size: int, blocks: int
) -> None:
    plan = WHVILinear(in_features, out_features).plan
    assert (plan.size, plan.blocks) == (size, blocks)
    layer = WHVILinear(in_features, out_features)
    assert layer(torch.randn(2, in_features)).shape == (2, out_features)


@pytest.mark.parametrize("layout", ["stack", "embed"])
def test_a_million_features(layout: str) -> None:
    size = 1 << 20
    layer = WHVILinear(size, size, layout=layout)
    y = layer(torch.randn(1, size))
    (y.square().mean() + layer.kl()).backward()
    assert y.shape == (1, size)
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in layer.parameters())


@pytest.mark.parametrize(
    ("structure", "prior_variance", "shape"),
    cover_pairs(["GH", "SHGH", "SHGHS", "SHGHSH"], [1.0, 1e-5], [(256, 256), (100, 300)]),
    ids=str,
)
def test_initial_weights_have_the_variance_for_relu(
    structure: str, prior_variance: float, shape: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    in_features, out_features = shape
    options: dict[str, Any] = {"structure": structure, "prior_variance": prior_variance, "share_g": False}
    weights = [WHVILinear(in_features, out_features, **options).weight_at() for _ in range(20)]
    assert float(torch.stack(weights).detach().var() * in_features) == pytest.approx(2.0, rel=0.2)


def test_the_prior_variance_is_a_choice_of_units() -> None:
    one, other = WHVILinear(8, 8, dtype=torch.float64), WHVILinear(8, 8, prior_variance=4.0, dtype=torch.float64)
    other.load_state_dict(one.state_dict())
    with torch.no_grad():
        other.g.mean.mul_(2.0)
        other.g.log_std.add_(torch.tensor(2.0).double().log())
        other.scales[0].mean.div_(2.0)
    torch.testing.assert_close(other.weight_at(), one.weight_at())
    torch.testing.assert_close(other.kl(), one.kl())


def test_blocks_with_their_own_g_each_count_in_the_kl() -> None:
    shared, own = WHVILinear(4, 12, bias=False), WHVILinear(4, 12, bias=False, share_g=False)
    for layer in (shared, own):
        nn.init.constant_(layer.g.mean, 0.3)
    torch.testing.assert_close(own.kl(), 3 * shared.kl())


def test_nan_passes_through_as_in_a_plain_layer() -> None:
    x = torch.randn(4, 6)
    x[1, 2] = torch.nan
    y = WHVILinear(6, 5)(x)
    assert y.isnan().all(-1).tolist() == nn.Linear(6, 5)(x).isnan().all(-1).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: WHVILinear(0, 4), ValueError, "in_features must be at least 1, got 0"),
        (lambda: WHVILinear(4, -1), ValueError, "out_features must be at least 1, got -1"),
        (lambda: WHVILinear(4.0, 4), TypeError, "in_features must be an int, got 4.0"),
        (lambda: WHVILinear(4, 4, structure="SHG?"), ValueError, "structure 'SHG?'"),
        (lambda: WHVILinear(4, 4, structure="SSG"), ValueError, "structure 'SSG'"),
        (lambda: WHVILinear(4, 4, structure=3), TypeError, "structure must be a string"),
        (lambda: WHVILinear(4, 4, posterior="laplace"), ValueError, "posterior 'laplace' is unknown; use 'point'"),
        (lambda: WHVILinear(4, 4, posterior="planar:0"), ValueError, "steps of a planar flow must be at least 1"),
        (lambda: WHVILinear(4, 4, scales="free"), ValueError, "scales 'free' is unknown"),
        (lambda: WHVILinear(4, 4, bias="laplace"), ValueError, "bias 'laplace' is unknown"),
        (lambda: WHVILinear(4, 4, bias=0), TypeError, "bias must be a string or a function"),
        (lambda: WHVILinear(4, 4, structure=["S"]), TypeError, "structure must be a string"),
        (lambda: WHVILinear(4, 4, weight_variance="a"), TypeError, "weight_variance must be a number or None, got str"),
        (lambda: WHVILinear(4, 4, dtype=torch.int64), TypeError, "dtype must be a real floating-point type"),
        (lambda: WHVIColumn(4)(torch.ones(2, 4).double()), TypeError, "x has dtype torch.float64, but the layer has"),
        (lambda: WHVILinear(4, 4, structure="GH", prior_variance=FLAT), RuntimeError, "not those of H g times scales"),
        (lambda: WHVILinear(4, 4, scales="diagonal", prior_variance=FLAT), ValueError, "needs scales='optimised'"),
        (lambda: MeanFieldLinear(4, 4, prior_variance=FLAT), ValueError, "is for structured weights"),
        (lambda: WHVILinear(4, 4, layout="tile"), ValueError, "layout must be one of 'stack', 'embed', 'reshape'"),
        (lambda: WHVILinear(4, 4, draws="row"), ValueError, "draws must be 'example' or 'batch', got 'row'"),
        (lambda: WHVILinear(4, 4, prior_variance=-1.0), ValueError, "prior variance must be positive and finite"),
        (lambda: WHVILinear(4, 4, prior_variance="big"), TypeError, "prior variance must be a number, got str"),
        (lambda: WHVILinear(4, 8, structure="GH"), ValueError, "2 blocks that share one g would be equal"),
        (lambda: WHVILinear(4, 4)(torch.ones(2, 5)), ValueError, "x has shape (2, 5), but its last axis must be in_f"),
        (lambda: WHVILinear(4, 4)(torch.ones(())), ValueError, "x has shape (), but its last axis must be in_features"),
        (lambda: WHVILinear(4, 4)(torch.ones(2, 4).long()), TypeError, "x has dtype torch.int64"),
        (lambda: WHVILinear(4, 4)([1.0] * 4), TypeError, "x must be a torch.Tensor, got list"),
        (lambda: WHVILinear(4, 4)(torch.ones(2, 4).double()), TypeError, "float64"),
    ],
)
def test_refusals_name_the_argument(make: object, error: type[Exception], said: str) -> None:
    with pytest.raises(whvi.WhviError) as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, error)
    assert said in str(caught.value)
