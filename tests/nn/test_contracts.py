"""Every two of structure, scales, posterior and layer through the shipped contract."""

from itertools import combinations
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence
from torch.func import vmap
from torch.nn.functional import conv2d, linear

from whvi.nn import (
    BayesianLayer,
    Draw,
    WHVIColumn,
    WHVIConv2d,
    WHVILinear,
)
from whvi.nn.structured import StructuredLayer
from whvi.posterior import GaussianPosterior, PlanarFlow, Point
from whvi.testing import LayerContract, assert_close, assert_uncorrelated, cover_pairs, perturb
from whvi.testing.layer import posteriors

LAYERS = ("Stacked", "Embedded", "Column", "Convolution")
STRUCTURES = ("GH", "SHGH", "SHGHS", "SHGHSH")
SCALES = ("optimised", "diagonal")
POSTERIORS = ("point", "diagonal", "low_rank:2", "full", "planar:2", "planar:2:full")
PLANTED = (  # tests/test_mutations.py looks for its mistakes with these
    ("Stacked", "SHGHS", "optimised", "diagonal"),
    ("Stacked", "SHGHS", "diagonal", "diagonal"),
    ("Stacked", "SHGHS", "diagonal", "low_rank:2"),
    ("Convolution", "SHGHS", "optimised", "diagonal"),
)

Case = tuple[str, str, str]


def exists(layer: str, word: str, scales: str, posterior: str) -> bool:
    """A word without S has no scales to infer."""
    return "S" in word or scales == "optimised"


CASES = cover_pairs(LAYERS, STRUCTURES, SCALES, POSTERIORS, keep=exists, first=PLANTED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each law under every two of layer, word, kind of scales and posterior; torch has no KL of flows."""
    if "case" in metafunc.fixturenames:
        assert metafunc.cls is not None
        cases = [case for layer, *case in CASES if metafunc.cls.__name__ == f"Test{layer}"]
        if metafunc.function is WHVIContract.test_kl_is_that_of_torch:
            cases = [case for case in cases if "planar" not in case[-1]]
        metafunc.parametrize("case", cases, ids="-".join)


def options(case: Case) -> dict[str, Any]:
    word, scales, posterior = case
    return {"structure": word, "scales": scales, "posterior": posterior, "dtype": torch.float64}


L = TypeVar("L", bound=BayesianLayer)


def settled(layer: L) -> L:
    """Every parameter off its special value, and means of flows that take less time."""
    for each in posteriors(layer):
        if isinstance(each, PlanarFlow):
            each.mean_samples = 64
    return perturb(layer)


class WHVIContract(LayerContract):
    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(x, weight, bias)

    @pytest.fixture
    def inputs(self, layer: WHVILinear) -> Tensor:
        return torch.randn(6, layer.in_features, dtype=torch.float64)

    def test_vectors_are_independent(self, layer: StructuredLayer) -> None:
        """g, the scales and the bias at one draw have no covariance over seeds: each has noise of its own."""

        def vectors(seed: Tensor) -> list[Tensor | None]:
            draw = Draw(seed)
            return [layer.g_at(draw), *layer.matrix(draw).scales, layer.bias_value(draw)]

        with torch.no_grad():
            draws = [v.flatten(1) for v in vmap(vectors)(torch.arange(4000)) if v is not None]
        for one, other in combinations(draws, 2):
            assert_uncorrelated(one, other)

    def test_kl_is_that_of_torch(self, layer: StructuredLayer) -> None:
        """Of g, the bias and the scales, one by one."""
        parts = [each for each in posteriors(layer) if not isinstance(each, Point)]
        assert all(isinstance(each, GaussianPosterior) for each in parts)
        expected = torch.zeros((), dtype=torch.float64)
        for part in parts:
            root = part.covariance_root()
            prior = MultivariateNormal(torch.zeros_like(part.mean), torch.eye(part.mean.shape[-1]).double())
            expected += kl_divergence(MultivariateNormal(part.mean, root @ root.mT), prior).sum()
        assert_close(layer.kl(), expected, 1e-10)


class TestStacked(WHVIContract):
    @pytest.fixture
    def layer(self, case: Case) -> WHVILinear:
        return settled(WHVILinear(2, 5, share_g="S" in case[0], **options(case)))


class TestEmbedded(WHVIContract):
    @pytest.fixture
    def layer(self, case: Case) -> WHVILinear:
        return settled(WHVILinear(2, 3, layout="embed", **options(case)))


class TestColumn(WHVIContract):
    @pytest.fixture
    def layer(self, case: Case) -> WHVIColumn:
        return settled(WHVIColumn(7, 2, **options(case)))


class TestConvolution(WHVIContract):
    @pytest.fixture
    def layer(self, case: Case) -> WHVIConv2d:
        groups = 2 if case[0] in ("GH", "SHGH") else 1
        return settled(WHVIConv2d(2, 4, (2, 1), stride=(1, 2), groups=groups, share_g="S" in case[0], **options(case)))

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 2, 3, 3, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        assert isinstance(layer, WHVIConv2d)
        return conv2d(x, weight, bias, stride=(1, 2), groups=layer.groups)
