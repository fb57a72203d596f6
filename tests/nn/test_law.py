"""The law of W in closed form: against samples, against the paper's formulas, and against the dense twin."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whvi.errors import UnsupportedError
from whvi.nn import WHVIColumn, WHVIConv2d, WHVILinear
from whvi.nn.law import WeightDistribution
from whvi.ops import fwht
from whvi.testing import assert_moments

POSTERIORS = ["point", "diagonal", "low_rank:2", "full"]
WEIGHTS: dict[str, Any] = {
    "square": {"in_features": 4, "out_features": 4},
    "one number": {"in_features": 1, "out_features": 1},
    "tall": {"in_features": 3, "out_features": 7},
    "tall, own g": {"in_features": 3, "out_features": 7, "share_g": False},
    "wide": {"in_features": 7, "out_features": 2, "structure": "SHGH"},
    "embed": {"in_features": 3, "out_features": 4, "layout": "embed", "structure": "GH"},
    "longer word": {"in_features": 4, "out_features": 5, "structure": "SHGHSH"},
    "reshape": {"in_features": 11, "out_features": 2, "layout": "reshape"},
    "reshape, own g": {"in_features": 11, "out_features": 2, "layout": "reshape", "share_g": False},
}
every_posterior = pytest.mark.parametrize("posterior", POSTERIORS)
every_weight = pytest.mark.parametrize("weight", WEIGHTS)


def make(posterior: str, **options: Any) -> WHVILinear:
    """A layer in float64 whose parameters have left their initial, special values."""
    layer = WHVILinear(posterior=posterior, dtype=torch.float64, **options)
    scatter(layer)
    return layer


@torch.no_grad()
def scatter(layer: torch.nn.Module) -> None:
    for parameter in layer.parameters():
        parameter.add_(0.5 * torch.randn_like(parameter))


def assert_is_mean(samples: Tensor, expected: Tensor) -> None:
    """Samples (n, ...) whose average is within 4 standard errors of what is expected, everywhere."""
    error = samples.std(0) / len(samples) ** 0.5
    assert ((samples.mean(0) - expected).abs() <= 4 * error + 1e-12).all()


@every_weight
@every_posterior
def test_moments_are_those_of_samples(weight: str, posterior: str) -> None:
    layer = make(posterior, **WEIGHTS[weight])
    law = layer.weight_distribution()
    samples = layer.weight_at(layer.draw((20_000,))).detach()
    if posterior == "point":
        samples = samples.expand(20_000, *samples.shape[-2:])
    assert_is_mean(samples, law.mean)
    samples = samples - law.mean
    assert_is_mean(samples.square(), law.variance)
    vectors = samples.mT.flatten(1)
    assert_moments(vectors, torch.zeros_like(vectors[0]), law.covariance, 4.0)
    assert_is_mean(samples @ samples.mT, law.row_covariance)
    assert_is_mean(samples.mT @ samples, law.column_covariance * law.row_covariance.trace())


@every_weight
@every_posterior
def test_parts_fit_together(weight: str, posterior: str) -> None:
    layer = make(posterior, **WEIGHTS[weight])
    law = layer.weight_distribution()
    u, v = law.row_covariance, law.column_covariance
    assert u.shape == (layer.out_features,) * 2
    assert v.shape == (layer.in_features,) * 2
    assert_close(v.trace(), torch.tensor(0.0 if posterior == "point" else 1.0, dtype=torch.float64))
    assert_close(law.row_root @ law.row_root.T, u)
    assert_close(law.column_root @ law.column_root.T, v)
    assert_close(law.covariance.diagonal(), law.variance.T.flatten())
    assert_close(law.variance.sum(1), u.diagonal())
    assert_close(law.mean, layer.weight_at())


@every_weight
def test_linear_map_takes_g_to_vec_w(weight: str) -> None:
    layer = make("full", **WEIGHTS[weight])
    law = layer.weight_distribution()
    g = torch.randn(layer.g.event_shape, dtype=torch.float64)
    assert_close(law.linear_map @ g.flatten(), layer.matrix(None).dense(g).T.flatten())
    assert_close(law.linear_map @ law.g_root @ law.g_root.T @ law.linear_map.T, law.covariance)


def test_paper_formulas() -> None:
    size = 4
    layer = make("full", in_features=size, out_features=size)
    law = layer.weight_distribution()
    h = fwht(torch.eye(size, dtype=torch.float64), scale=size**-0.5)
    s1, s2 = (scale.mean.detach().diag() for scale in layer.scales)
    root = layer.g.root().detach()

    def t(scale: Tensor) -> Tensor:
        """Row i: the column-wise vec of the matrix (root_ij (H S)_ij')."""
        return torch.stack([torch.outer(root[i], (h @ scale)[i]).T.flatten() for i in range(size)])

    row_root = s1 @ h @ t(s2)
    assert_close(law.row_root, row_root)
    assert_close(law.column_root, s2 @ h @ t(s1) / (row_root @ row_root.T).trace().sqrt())
    assert_close(law.linear_map, torch.cat([s1 @ h @ (s2[i, i] * h[:, i]).diag() for i in range(size)]))
    assert_close(law.mean, s1 @ h @ layer.g.mean.diag() @ h @ s2)
    length, _ = law.lq()
    assert_close(length, torch.cat([s2[i, i] * s1.diagonal() for i in range(size)]))


@pytest.mark.parametrize("word", ["SHGHS", "SHGH", "HGHS", "HGH"])
@pytest.mark.parametrize(
    ("out_features", "in_features", "layout", "share_g"),
    [
        (8, 8, "stack", True),
        (12, 4, "stack", True),
        (12, 4, "stack", False),
        (3, 16, "reshape", True),
        (1, 1, "embed", True),
    ],
)
def test_lq(word: str, out_features: int, in_features: int, layout: str, share_g: bool) -> None:
    if word == "HGH" and share_g and out_features != in_features:
        share_g = False  # equal blocks are refused
    layer = make(
        "full", structure=word, out_features=out_features, in_features=in_features, layout=layout, share_g=share_g
    )
    law = layer.weight_distribution()
    length, rotation = law.lq()
    assert_close(length[:, None] * rotation, law.linear_map)
    assert_close(rotation.T @ rotation, torch.eye(layer.g.mean.numel(), dtype=torch.float64))


def test_matrix_normal_is_another_law() -> None:
    law = make("full", in_features=4, out_features=4).weight_distribution()
    exact, kron = law.covariance.detach(), law.matrix_normal_covariance.detach()
    for covariance in (exact, kron):  # both have U, and V up to its trace
        axes = covariance.reshape(4, 4, 4, 4)  # column, row, column, row
        assert_close(torch.einsum("jijk->ik", axes), law.row_covariance.detach())
        assert_close(torch.einsum("jiki->jk", axes) / covariance.trace(), law.column_covariance.detach())
    assert (exact - kron).norm() > 0.5 * exact.norm()
    assert torch.linalg.matrix_rank(exact) == 4
    assert torch.linalg.matrix_rank(kron) == 16


def test_sums_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    law = make("low_rank:3", in_features=8, out_features=20).weight_distribution()
    whole = law.row_covariance, law.column_covariance, law.variance
    monkeypatch.setattr("whvi.nn.law._CHUNK", 1000)
    sizes = [len(chunk) for chunk in law._chunks()]
    assert sizes == [5, 5, 1]
    assert_close((law.row_covariance, law.column_covariance, law.variance), whole)


def test_law_is_that_of_the_moment_it_was_taken() -> None:
    layer = make("diagonal", in_features=4, out_features=4)
    law = layer.weight_distribution()
    before = law.mean.clone(), law.covariance.clone()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    assert_close((law.mean, law.covariance), before)


def test_law_is_differentiable() -> None:
    layer = make("full", in_features=2, out_features=3)
    parameters = [layer.g.mean, layer.g.log_std, layer.g.lower, *(scale.mean for scale in layer.scales)]
    law = layer.weight_distribution()
    gradients = torch.autograd.grad(law.covariance.sum() + law.mean.sum() + law.column_root.sum(), parameters)
    assert all(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("posterior", ["point", "diagonal"])
def test_half_precision_is_computed_in_single(posterior: str) -> None:
    law = WHVILinear(4, 4, posterior=posterior, dtype=torch.bfloat16).weight_distribution()
    assert law.mean.dtype == law.covariance.dtype == law.column_covariance.dtype == torch.float32


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("share_g", [True, False])
@pytest.mark.parametrize("kernel_size", [1, (1, 3)])
def test_filters_are_rows_of_w(groups: int, share_g: bool, kernel_size: int | tuple[int, int]) -> None:
    layer = WHVIConv2d(4, 6, kernel_size, groups=groups, share_g=share_g, posterior="full", dtype=torch.float64)
    scatter(layer)
    law = layer.weight_distribution()
    draw = layer.draw((20_000,))
    vectors = layer.weight_at(draw).flatten(2).mT.flatten(1).detach()
    g = layer.g.rsample((20_000,), seed=draw.seed).flatten(1).detach()
    assert_close(g @ law.linear_map.T, vectors)
    assert_close(law.mean, layer.weight_at().flatten(1))
    deviations = vectors - vectors.mean(0)
    assert_is_mean(deviations.square(), law.variance.T.flatten())
    assert_close(law.covariance.diagonal(), law.variance.T.flatten())
    assert_close(law.row_root @ law.row_root.T, law.row_covariance)
    assert_close(law.column_root @ law.column_root.T, law.column_covariance)


def test_lq_of_groups() -> None:
    law = WHVIConv2d(4, 8, 1, groups=2, dtype=torch.float64).weight_distribution()
    length, rotation = law.lq()
    assert_close(length[:, None] * rotation, law.linear_map)
    assert_close(rotation.T @ rotation, torch.eye(2, dtype=torch.float64))


def test_columns_have_a_law() -> None:
    layer = WHVIColumn(16, 3, dtype=torch.float64)
    law = layer.weight_distribution()
    assert isinstance(law, WeightDistribution)
    assert (law.row_covariance - law.row_covariance.diagonal().diag()).abs().max() < 1e-12  # outputs are independent


@pytest.mark.parametrize("options", [{"posterior": "planar:2"}, {"scales": "diagonal"}])
def test_laws_without_closed_form_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"layer\.weight_at\(layer\.draw\(\(n,\)\)\)"):
        WHVILinear(4, 4, **options).weight_distribution()


def test_large_covariances_are_refused() -> None:
    assert WHVILinear(64, 64).weight_distribution().covariance.shape == (4096, 4096)
    law = WHVILinear(64, 65).weight_distribution()
    for name in ("covariance", "matrix_normal_covariance"):
        with pytest.raises(UnsupportedError, match=r"4,160 entries .* at most 4,096"):
            getattr(law, name)
    assert law.row_covariance.shape == (65, 65)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "SHGHSH"}, "'SHGHSH' has no LQ"),
        ({"structure": "GH"}, "'GH' has no LQ"),
        ({"out_features": 3}, r"\(3, 4\) does not fill its 1 blocks of side 4"),
    ],
)
def test_lq_is_refused_where_there_is_none(options: dict[str, Any], message: str) -> None:
    law = WHVILinear(**{"in_features": 4, "out_features": 4, **options}).weight_distribution()
    with pytest.raises(UnsupportedError, match=message):
        law.lq()
