"""Weights on grids of blocks, and on blocks of orders that are no powers of two: what they equal, and arguments."""

from typing import Any

import pytest
import torch
from torch import nn

import whvi
from whvi.errors import ArgumentError, UnsupportedError
from whvi.nn import WHVIColumn, WHVIConv2d, WHVILinear
from whvi.posterior import ConstantWeightVariance
from whvi.testing import assert_close, cover_pairs, perturb

DOUBLE: dict[str, Any] = {"dtype": torch.float64}


def seeded(**options: Any) -> WHVILinear:
    torch.manual_seed(0)
    return WHVILinear(6, 20, **options)


@pytest.mark.parametrize(("terms", "share_g"), [(1, True), (1, False), (3, True)])
def test_one_column_is_the_stack(terms: int, share_g: bool) -> None:
    """The same parameters from the same seed, and the same numbers."""
    layers = [seeded(terms=terms, share_g=share_g, **options) for options in ({}, {"layout": "grid", "block": 8})]
    states = [layer.state_dict() for layer in layers]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    outputs = []
    for layer in layers:
        torch.manual_seed(1)
        outputs.append(layer(torch.ones(5, 6)))
    assert torch.equal(*outputs)


def test_blocks_of_one_are_mean_field_times_scales() -> None:
    """W_ij = s1_ij g_ij s2_ij with g_ij ~ N(m_ij, v_ij), all independent: blocks are numbered down the columns."""
    layer = perturb(WHVILinear(3, 4, layout="grid", block=1, share_g=False, **DOUBLE))
    s1, s2, mean, std = (
        vector.detach().reshape(3, 4).T
        for vector in (*(scale.mean for scale in layer.scales), layer.g.mean, layer.g.log_std.exp())
    )
    law = layer.weight_distribution()
    assert_close(law.mean, s1 * mean * s2, 1e-12)
    assert_close(law.variance, (s1 * std * s2).square(), 1e-12)
    assert_close(law.covariance, torch.diag((s1 * std * s2).square().T.flatten()), 1e-12)
    prior = layer.prior.initial_variance
    each = 0.5 * ((mean.square() + std.square()) / prior - 1.0 - (std.square() / prior).log())
    assert_close(layer.kl_terms()[layer.g], each.sum(), 1e-10)


@pytest.mark.parametrize(("block", "terms", "share_g"), cover_pairs((4, 12, 32, 64), (1, 3), (True, False)))
def test_variance_of_the_weight_at_the_start(block: int, terms: int, share_g: bool) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"layout": "grid", "block": block, "terms": terms, "share_g": share_g}
    weights = torch.stack([WHVILinear(48, 40, **options).weight for _ in range(60)]).detach()
    assert float(weights.var()) == pytest.approx(2 / 48, rel=0.15)


def test_a_grid_is_its_blocks_in_their_places() -> None:
    layer = perturb(WHVILinear(10, 7, layout="grid", block=4, terms=2, share_g=False, bias=False, **DOUBLE))
    blocks = layer.matrix(None).blocks(layer.g.mean).sum(-4).unflatten(0, (3, 2))
    rows = [torch.cat([blocks[column, row] for column in range(3)], 1) for row in range(2)]
    assert_close(layer.weight, torch.cat(rows)[:7, :10], 1e-12)


@pytest.mark.parametrize("share_g", [True, False])
def test_lq_of_a_grid_and_of_other_orders(share_g: bool) -> None:
    for options in ({"layout": "grid", "block": 4}, {"layout": "grid", "block": 12}):
        law = WHVILinear(12, 24, share_g=share_g, **options, **DOUBLE).weight_distribution()  # type: ignore[arg-type]
        length, rotation = law.lq()
        assert_close(length[:, None] * rotation, law.linear_map, 1e-12)
        assert_close(rotation.T @ rotation, torch.eye(rotation.shape[1], dtype=torch.float64), 1e-12)


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.parametrize("options", [{"layout": "grid", "block": 8}, {"layout": "grid", "block": 12}, {"terms": 2}])
def test_a_conversion_starts_near_the_dense_weight(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    dense = nn.Linear(24, 20)
    layer, report = whvi.bayesianize(dense, rule=lambda *_: True, init="pretrained", **options)
    assert isinstance(layer, WHVILinear)
    error = float(((layer.weight - dense.weight).norm() / dense.weight.norm()).detach())
    assert report.rows[0].error == pytest.approx(error, abs=1e-4)
    assert error < 0.95


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
def test_a_conversion_finds_a_weight_that_is_a_grid() -> None:
    torch.manual_seed(0)
    source, dense = WHVILinear(16, 16, layout="grid", block=8, share_g=False), nn.Linear(16, 16)
    dense.weight.data.copy_(source.weight.detach())
    options: dict[str, Any] = {"rule": lambda *_: True, "layout": "grid", "block": 8, "share_g": False}
    assert whvi.bayesianize(dense, init="pretrained", **options).report.rows[0].error < 1e-2


@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "blocks"),
    [
        (768, 768, 768, 1),
        (768, 1024, 1024, 1),
        (100, 100, 112, 1),
        (100, 128, 128, 1),
        (11, 128, 16, 8),
        (9, 24, 12, 2),
    ],
)
def test_blocks_have_the_side_that_takes_fewer_numbers(inputs: int, outputs: int, size: int, blocks: int) -> None:
    plan = WHVILinear(inputs, outputs, device="meta").plan
    assert (plan.size, plan.blocks) == (size, blocks)
    padded = WHVILinear(inputs, outputs, pad_to="power_of_two", device="meta").plan
    assert padded.size == 1 << (inputs - 1).bit_length()
    assert plan.size * plan.blocks <= padded.size * padded.blocks


def test_filters_and_embedded_weights_take_other_orders() -> None:
    assert WHVIConv2d(64, 64, 3, device="meta").plan.size == 576
    assert WHVIConv2d(64, 64, 3, pad_to="power_of_two", device="meta").plan.size == 1024
    assert WHVILinear(70, 75, layout="embed", device="meta").plan.size == 80
    assert WHVIColumn(150, device="meta").plan.size == 16  # inner products need powers of two


@pytest.mark.parametrize("make", [WHVILinear, lambda *sizes, **options: WHVIConv2d(*sizes, 1, **options)])
def test_bad_arguments(make: Any) -> None:
    with pytest.raises(ArgumentError, match=r"block=30 is not an order .* the next one is 32"):
        make(4, 4, layout="grid", block=30)
    with pytest.raises(ArgumentError, match="'grid' needs block="):
        make(4, 4, layout="grid")
    with pytest.raises(ArgumentError, match=r"block=8 is the side .* layout is 'stack'"):
        make(4, 4, block=8)
    with pytest.raises(ArgumentError, match="block must be at least 1, got 0"):
        make(4, 4, layout="grid", block=0)
    with pytest.raises(ArgumentError, match="pad_to must be one of 'order', 'power_of_two', got 'two'"):
        make(4, 4, pad_to="two")


def test_what_needs_powers_of_two_says_so() -> None:
    with pytest.raises(UnsupportedError, match="pad_to='power_of_two'"):
        WHVILinear(12, 12, prior_variance=ConstantWeightVariance(0.1))
    with pytest.raises(ArgumentError, match="layout is 'reshape'"):
        WHVIColumn(16, block=4)
