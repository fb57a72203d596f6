"""Words with a permutation: the contract of layers, and P in layers that are made, copied, saved and converted."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from structured_contract import StructuredContract
from torch import Tensor, nn

import whvi
from whvi.convert import bayesianize, to_dense
from whvi.errors import ArgumentError, UnsupportedError
from whvi.inference import fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import WHVIColumn, WHVIConv2d, WHVILinear
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.structured import StructuredLayer
from whvi.posterior import ConstantWeightVariance
from whvi.predictive import Ensemble
from whvi.testing import assert_close, assert_moments, perturb

DOUBLE: dict[str, Any] = {"dtype": torch.float64}
LAYERS: dict[str, Any] = {
    "stack": lambda: WHVILinear(3, 7, structure="SPHGHS", terms=2, scales="diagonal", **DOUBLE),
    "stack-without-scales": lambda: WHVILinear(2, 5, structure="HGPH", posterior="full", **DOUBLE),
    "column": lambda: WHVIColumn(7, 2, structure="SHPGPHS", **DOUBLE),
    "conv-groups": lambda: WHVIConv2d(2, 4, (2, 1), stride=(1, 2), groups=2, structure="SHGPHS", **DOUBLE),
}


@pytest.mark.parametrize("name", LAYERS)
class TestPermuted(StructuredContract):  # type: ignore[misc]
    """All laws of a layer hold for words with P."""

    @pytest.fixture
    def layer(self, name: str) -> StructuredLayer:
        layer: StructuredLayer = LAYERS[name]()
        return perturb(layer)


def made(word: str, seed: int = 0, **options: Any) -> WHVILinear:
    torch.manual_seed(seed)
    return WHVILinear(8, 20, structure=word, **options)


def test_the_permutation_is_drawn_after_all_that_words_without_one_draw() -> None:
    plain, permuted = dict(made("SHGHS").named_parameters()), dict(made("SHGPHS").named_parameters())
    assert plain.keys() == permuted.keys()
    assert all(torch.equal(plain[name], permuted[name]) for name in plain)
    assert not list(made("SHGHS").buffers())


def test_each_block_term_and_group_has_a_permutation_of_its_own() -> None:
    (one,) = made("SHGPHS", terms=2).permutations
    assert one.shape == (2, 3, 8)
    assert (one.sort(-1).values == torch.arange(8)).all()
    assert len(one.flatten(0, -2).unique(dim=0)) == 6
    assert torch.equal(one, made("SHGPHS", terms=2).permutations[0])
    assert not torch.equal(one, made("SHGPHS", seed=1, terms=2).permutations[0])
    assert WHVIConv2d(4, 8, 2, groups=2, structure="SHPGPHS").permutations[1].shape == (2, 8)


def test_a_permutation_is_saved_copied_and_told_apart() -> None:
    layer, other = made("SHGPHS"), made("SHGPHS", 1)
    x = torch.randn(5, 8)

    def mean(model: nn.Module) -> Tensor:
        with whvi.mean_mode(model):
            y: Tensor = model(x)
        return y

    other.load_state_dict({n: v for n, v in layer.state_dict().items() if "permutation" not in n}, strict=False)
    assert not torch.equal(mean(other), mean(layer))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(mean(other), mean(layer))
    assert torch.equal(mean(deepcopy(layer)), mean(layer))
    assert layer.to(torch.bfloat16).permutations[0].dtype == torch.int64
    assert differences(anatomy(made("SHGHS")), anatomy(made("SHGPHS")))
    assert differences(anatomy(made("SPHGHS")), anatomy(made("SHGPHS")))


def test_members_keep_their_own_permutations() -> None:
    models, x, y = [made("SHGPHS", i) for i in range(3)], torch.randn(6, 8), torch.randn(6, 20)
    ensemble = Ensemble(models)
    with whvi.mean_mode(ensemble.architecture):
        found = ensemble.functions(x)
    for i, model in enumerate(models):
        with whvi.mean_mode(model):
            torch.testing.assert_close(found[i], model(x))
    kept = [model.permutations[0].clone() for model in models]
    fit_replicas(models, [Gaussian(20) for _ in models], [(x, y)] * 3, steps=2, seeds=[0, 1, 2])
    assert all(torch.equal(model.permutations[0], one) for model, one in zip(models, kept, strict=True))


def test_the_distribution_of_the_weight_knows_the_permutation() -> None:
    layer = perturb(WHVILinear(4, 6, structure="SHGPHS", posterior="full", **DOUBLE))
    law = layer.weight_distribution()
    draws = layer.weight_at(layer.draw((20_000,), torch.Generator().manual_seed(0))).mT.flatten(1)
    assert_moments(draws, law.mean.T.flatten(), law.covariance)
    g = torch.randn_like(law.g_mean)
    assert_close(law.linear_map @ g.flatten(), law.matrix.dense(g).T.flatten(), 1e-12)
    with pytest.raises(UnsupportedError, match="'SHGPHS' has no LQ decomposition"):
        law.lq()


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.parametrize("options", [{}, {"terms": 2, "share_g": False, "structure": "SPHGHS"}], ids=str)
def test_a_layer_starts_at_the_weight_that_was_fitted(options: dict[str, Any]) -> None:
    """Law: the error of the report is that of the mean weight, whose permutation is the one that was fitted."""
    torch.manual_seed(0)
    one, other = nn.Linear(8, 20), nn.Linear(8, 20)
    other.weight = one.weight
    options = {"structure": "SHGPHS", "init": "pretrained", **options}
    model, report = bayesianize(nn.ModuleList([one, other]), rule=("0", "1"), **options)
    layers = [layer for layer in model if isinstance(layer, WHVILinear)]
    for layer, row in zip(layers, report.replaced, strict=True):
        error = (layer.weight - one.weight).norm() / one.weight.norm()
        assert row.error is not None
        assert 0.0 < row.error < 1.0
        assert float(error.detach()) == pytest.approx(row.error, rel=1e-4)
    with whvi.sampling(model) as draws:
        assert torch.equal(*(layer.weight_at(draws[layer]) for layer in layers))
    dense = to_dense(model)
    assert dense.get_submodule("0").weight is dense.get_submodule("1").weight


def test_what_has_no_permuted_form_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'SHGPHS'"):
        made("SHGPHS", prior_variance=ConstantWeightVariance(0.1))
    with pytest.raises(ArgumentError, match="'SHGPPHS'"):
        made("SHGPPHS")
