"""Means and variances of layers: against their draws, and against the dense law."""

from typing import Any

import pytest
import torch
from torch import nn

import whvi
from whvi.errors import UnsupportedError
from whvi.nn import BayesianLayer, FullCovarianceLinear, MCDropout, MeanFieldLinear, WHVIColumn, WHVILinear

CASES: dict[str, tuple[Any, tuple[int, int], dict[str, Any]]] = {
    "stack": (WHVILinear, (5, 11), {}),
    "terms": (WHVILinear, (5, 11), {"terms": 4}),
    "own g": (WHVILinear, (5, 11), {"share_g": False, "bias": False}),
    "grid": (WHVILinear, (7, 6), {"layout": "grid", "block": 4, "share_g": False}),
    "grid that shares g": (WHVILinear, (7, 6), {"layout": "grid", "block": 4, "terms": 2}),
    "embed": (WHVILinear, (7, 3), {"layout": "embed"}),
    "order 12": (WHVILinear, (12, 12), {}),
    "low rank": (WHVILinear, (5, 6), {"posterior": "low_rank:2"}),
    "full": (WHVILinear, (5, 6), {"posterior": "full", "terms": 2}),
    "joint": (WHVILinear, (5, 6), {"posterior": "joint:full", "share_g": False}),
    "point": (WHVILinear, (5, 6), {"posterior": "point"}),
    "other word": (WHVILinear, (6, 6), {"structure": "SHGPHS"}),
    "column": (WHVIColumn, (20, 2), {"terms": 2}),
    "mean field": (MeanFieldLinear, (5, 3), {}),
    "full covariance": (FullCovarianceLinear, (5, 3), {}),
    "dropout": (lambda i, o, **options: MCDropout(nn.Linear(i, o), **options), (5, 3), {"p": 0.3}),
}


def made(case: str) -> tuple[BayesianLayer, torch.Tensor, torch.Tensor]:
    kind, (inputs, outputs), options = CASES[case]
    torch.manual_seed(0)
    layer = kind(inputs, outputs, **options).double()
    for parameter in layer.parameters():  # factors of low rank start near zero
        nn.init.normal_(parameter, 0.0, 0.5)
    return layer, torch.randn(2, inputs).double(), torch.rand(2, inputs).double()


def drawn(layer: BayesianLayer, mean: torch.Tensor, variance: torch.Tensor | None, count: int) -> torch.Tensor:
    """Outputs for independent draws of weights and inputs: (count, rows, outputs)."""
    with torch.no_grad(), whvi.sampling(layer, "example", torch.Generator().manual_seed(1)):
        x = mean.expand(count, *mean.shape)
        x = x if variance is None else x + variance.sqrt() * torch.randn(x.shape).double()
        return layer(x.flatten(0, 1)).unflatten(0, (count, -1))


def check(case: str, count: int, *, known: bool) -> None:
    layer, mean, variance = made(case)
    v = None if known else variance
    stage, y = layer.moments(mean, v), drawn(layer, mean, v, count)
    assert stage.variance is not None
    within = 5.0 / count**0.5
    spread = y.var(0)
    assert bool(((y.mean(0) - stage.mean).abs() <= within * (spread + 1e-12).sqrt()).all())
    fourth = (y - y.mean(0)).pow(4).mean(0) / (spread.square() + 1e-12)
    assert bool(((spread - stage.variance).abs() <= within * fourth.sqrt() * spread + 1e-12).all())
    u = torch.randn(3, 2, y.shape[-1]).double()
    back, added = stage.back(u)
    if known:  # nothing but the weights is random, so that is all
        whole = torch.einsum("fno,sno->sfn", u, y)
        spread = whole.var(0)
        fourth = (whole - whole.mean(0)).pow(4).mean(0) / (spread.square() + 1e-12)
        assert bool(((spread - added).abs() <= within * fourth.sqrt() * spread + 1e-12).all())
    else:
        torch.testing.assert_close(back, u @ layer.weight_at().detach())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_draws(case: str, known: bool) -> None:
    check(case, 4_000, known=known)


@pytest.mark.parametrize("case", ["terms", "grid that shares g", "order 12", "low rank", "mean field", "dropout"])
def test_moments_are_those_of_a_million_draws(case: str) -> None:
    check(case, 1_000_000, known=False)


@pytest.mark.parametrize("case", [name for name, (kind, _, _) in CASES.items() if kind is WHVILinear])
def test_moments_are_those_of_the_dense_law(case: str) -> None:
    layer, mean, variance = made(case)
    assert isinstance(layer, WHVILinear)
    law, bias = layer.weight_distribution(), 0.0 if layer.bias is None else layer.bias.variance
    second = law.mean.square() + law.variance
    expected = law.products(mean).square().sum(0) + variance @ second.T + bias
    torch.testing.assert_close(layer.moments(mean, variance).variance, expected)


@pytest.mark.parametrize("options", [{"scales": "diagonal"}, {"posterior": "planar:2"}, {"bias": "planar:2"}])
def test_what_has_no_closed_form_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"sample it instead|rsample"):
        WHVILinear(4, 4, **options).moments(torch.zeros(1, 4), None)
