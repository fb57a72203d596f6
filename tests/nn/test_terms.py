"""A weight that is a sum, over terms or columns of a grid: the contract of layers, and what a sum adds to it."""

from typing import Any

import pytest
import torch
from structured_contract import StructuredContract

import whvi
from whvi.errors import ArgumentError, UnsupportedError
from whvi.nn import WHVIColumn, WHVIConv2d, WHVILinear
from whvi.nn.structured import StructuredLayer
from whvi.posterior import PlanarFlow, Posterior
from whvi.testing import assert_close, perturb
from whvi.testing.layer import posteriors

DOUBLE = {"dtype": torch.float64}
LAYERS: dict[str, Any] = {  # every layout, structure, posterior and kind of scales, in pairs
    "square": lambda: WHVILinear(4, 4, terms=2, **DOUBLE),
    "stack-shared": lambda: WHVILinear(2, 5, terms=3, posterior="low_rank:2", **DOUBLE),
    "stack-own": lambda: WHVILinear(2, 5, terms=2, share_g=False, scales="diagonal", structure="SHGHSH", **DOUBLE),
    "grid": lambda: WHVILinear(5, 6, layout="grid", block=4, posterior="low_rank:2", **DOUBLE),
    "grid-terms": lambda: WHVILinear(5, 3, terms=2, layout="grid", block=2, share_g=False, structure="SHGH", **DOUBLE),
    "grid-12": lambda: WHVILinear(13, 2, layout="grid", block=12, structure="SHGPHS", scales="diagonal", **DOUBLE),
    "conv-grid": lambda: WHVIConv2d(2, 4, (2, 1), stride=(1, 2), groups=2, layout="grid", block=1, terms=2, **DOUBLE),
    "conv-12": lambda: WHVIConv2d(2, 9, (3, 2), stride=(1, 2), posterior="full", **DOUBLE),
    "embed": lambda: WHVILinear(2, 3, terms=2, layout="embed", structure="SHGH", posterior="full", **DOUBLE),
    "column": lambda: WHVIColumn(7, 2, terms=2, scales="diagonal", **DOUBLE),
    "column-shared": lambda: WHVIColumn(7, 2, terms=2, share_g=True, posterior="planar:2", **DOUBLE),
    "conv": lambda: WHVIConv2d(2, 4, (2, 1), stride=(1, 2), terms=2, **DOUBLE),
    "conv-groups": lambda: WHVIConv2d(2, 4, (2, 1), stride=(1, 2), groups=2, terms=2, share_g=False, **DOUBLE),
    "conv-groups-shared": lambda: WHVIConv2d(2, 8, (2, 1), stride=(1, 2), groups=2, terms=2, **DOUBLE),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
class TestTerms(StructuredContract):  # type: ignore[misc]
    """All laws of a layer hold for a sum of terms."""

    @pytest.fixture
    def layer(self, name: str) -> StructuredLayer:
        layer: StructuredLayer = LAYERS[name]()
        for each in posteriors(layer):
            if isinstance(each, PlanarFlow):
                each.mean_samples = 64
        return perturb(layer)


def single(layer: StructuredLayer, make: Any, t: int) -> StructuredLayer:
    """A layer of one term, with the parameters of term t."""
    one: StructuredLayer = make(1)
    axis = 1 if layer.groups > 1 else 0

    def copy(to: Posterior, of: Posterior, at: int) -> None:
        for a, b in zip(to.parameters(), of.parameters(), strict=True):
            a.data.copy_(b.data.select(at, t))

    copy(one.g, layer.g, 0 if layer.share_g else axis)
    for a, b in zip(one.scales, layer.scales, strict=True):
        copy(a, b, axis)
    return one


@pytest.mark.parametrize("share_g", [True, False])
@pytest.mark.parametrize("kind", ["linear", "column", "conv"])
def test_weight_kl_and_law_are_sums_over_terms(kind: str, share_g: bool) -> None:
    def make(terms: int) -> StructuredLayer:
        common: dict[str, Any] = {"bias": False, "terms": terms, "share_g": share_g, "posterior": "full", **DOUBLE}
        if kind == "conv":
            return WHVIConv2d(4, 8, (1, 2), groups=2, **common)
        return WHVILinear(3, 7, **common) if kind == "linear" else WHVIColumn(9, 2, **common)

    layer = perturb(make(3))
    terms = [single(layer, make, t) for t in range(3)]
    assert_close(layer.weight_at(), torch.stack([term.weight_at() for term in terms]).sum(0), 1e-12)
    assert_close(layer.kl(), torch.stack([term.kl() for term in terms]).sum(), 1e-12)
    laws = [term.weight_distribution() for term in terms]
    whole = layer.weight_distribution()
    assert_close(whole.mean, torch.stack([law.mean for law in laws]).sum(0), 1e-12)
    assert_close(whole.covariance, torch.stack([law.covariance for law in laws]).sum(0), 1e-12)
    assert_close(whole.variance, torch.stack([law.variance for law in laws]).sum(0), 1e-12)


def test_one_term_is_the_layer_without_terms() -> None:
    """The same parameters, numbers and noise, bit for bit."""
    layers = []
    for options in ({}, {"terms": 1}):
        torch.manual_seed(0)
        layers.append(WHVILinear(6, 10, **options))
    x = torch.randn(5, 6)
    for a, b in zip(*(layer.parameters() for layer in layers), strict=True):
        assert torch.equal(a, b)
    outputs = []
    for layer in layers:
        torch.manual_seed(1)
        outputs.append(layer(x))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("terms", [1, 4])
def test_variance_of_the_weight_at_the_start(terms: int) -> None:
    torch.manual_seed(0)
    weights = torch.stack([WHVILinear(64, 64, terms=terms, weight_variance=0.3).weight_at() for _ in range(50)])
    assert float(weights.detach().var()) == pytest.approx(0.3, rel=0.1)


def test_terms_cost_their_vectors() -> None:
    """g (mean and spread) and two scales for each term, one bias."""
    one, four = (sum(p.numel() for p in WHVILinear(64, 64, terms=t).parameters()) for t in (1, 4))
    assert (one, four) == (4 * 64 + 128, 4 * 4 * 64 + 128)


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
def test_each_term_of_a_conversion_leaves_less() -> None:
    torch.manual_seed(0)
    dense = torch.nn.Linear(32, 32)
    conversions = [whvi.bayesianize(dense, rule=lambda *_: True, terms=t, init="pretrained") for t in (1, 2, 4, 8)]
    errors = [float(conversion.report.rows[0].error or 0.0) for conversion in conversions]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.7 * errors[0]


@pytest.mark.parametrize("terms", [0, -1, 1.5, "2"])
def test_bad_number_of_terms(terms: Any) -> None:
    with pytest.raises((ArgumentError, TypeError), match="terms"):
        WHVILinear(4, 4, terms=terms)


def test_a_structure_without_scales_has_one_term() -> None:
    with pytest.raises(ArgumentError, match="no scales: a sum of 2 terms"):
        WHVILinear(4, 4, terms=2, structure="GH")
    with pytest.raises(UnsupportedError, match="sum of 2 terms"):
        WHVILinear(4, 4, terms=2).weight_distribution().lq()
