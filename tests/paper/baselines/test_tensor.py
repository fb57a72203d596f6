"""The tensor-factorised layer: a product of cores, of which the inner ones are random."""

from typing import Any

import pytest
import torch
from torch.distributions import Normal, kl_divergence

import whvi.nn as wnn
from whvi.errors import ArgumentError, ShapeError
from whvi.testing.compare import assert_estimate, perturb
from whvi_paper.baselines import TensorFactorisedLinear


@pytest.mark.parametrize(
    ("sizes", "rank", "cores"),
    [((1, 1), 2, 3), ((2, 2), 2, 3), ((5, 8), 3, 3), ((100, 128), 7, 3), ((1024, 1000), 10, 10), ((4096, 1), 12, 28)],
)
def test_default_sizes(sizes: tuple[int, int], rank: int, cores: int) -> None:
    layer = TensorFactorisedLinear(*sizes)
    assert (layer.rank, layer.cores) == (rank, cores)
    assert sum(p.numel() for p in layer.parameters()) == (rank * sum(sizes) + 2 * (cores - 2) * rank**2 + 2 * sizes[1])
    assert layer(torch.randn(2, sizes[0])).shape == (2, sizes[1])


def test_the_weight_is_the_product_of_the_cores() -> None:
    layer = TensorFactorisedLinear(6, 5, rank=3, cores=5, dtype=torch.float64)
    perturb(layer)
    draw = layer.draw((2,))
    inner = layer.inner.rsample((2,), seed=draw.seed)
    expected = torch.linalg.multi_dot([layer.first.mean, *inner[1], layer.last.mean])
    torch.testing.assert_close(layer.weight_at(draw)[1], expected, rtol=1e-12, atol=1e-12)
    assert_estimate(layer.weight_at(layer.draw((50_000,))), layer.weight_at(), 4.5)


def test_each_example_has_its_own_draw() -> None:
    layer = TensorFactorisedLinear(6, 5, rank=3, cores=5, dtype=torch.float64)
    perturb(layer)
    x = torch.randn(2, 4, 6, dtype=torch.float64)
    with wnn.sampling(layer, "example") as draws:
        y = layer(x)
        draw = draws[layer]
    assert draw is not None
    draw = draw._replace(shape=(2, 4))
    bias = layer.bias_value(draw)
    assert bias is not None
    expected = torch.einsum("...oi,...i->...o", layer.weight_at(draw), x) + bias
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"weight_variance": 0.3}, {"cores": 30, "rank": 6}], ids=str)
def test_variance_of_a_draw_at_the_start(options: dict[str, Any]) -> None:
    expected = options.get("weight_variance", 2 / 200)
    means = []
    for _ in range(30):
        layer = TensorFactorisedLinear(200, 150, **options)
        means.append(layer.weight_at(layer.draw((20,))).square().mean())
    assert_estimate(torch.stack(means), torch.tensor(expected), 4.0)


def test_kl_is_that_of_torch() -> None:
    layer = TensorFactorisedLinear(6, 5, prior_variance=0.5, dtype=torch.float64)
    perturb(layer)
    expected = [
        kl_divergence(Normal(q.mean, q.log_std.exp()), Normal(0.0, v**0.5)).sum()
        for q, v in ((layer.inner, 0.5), (layer.bias, 1.0))
    ]
    torch.testing.assert_close(layer.kl(), torch.stack(expected).sum())
    assert len(TensorFactorisedLinear(6, 5, "point").kl_terms()) == 1


def test_errors_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match="cores must be at least 3, got 2"):
        TensorFactorisedLinear(4, 4, cores=2)
    with pytest.raises(ArgumentError, match="rank must be at least 1, got 0"):
        TensorFactorisedLinear(4, 4, rank=0)
    with pytest.raises(ArgumentError, match="in_features must be at least 1"):
        TensorFactorisedLinear(-1, 4)
    with pytest.raises(ArgumentError, match="weight_variance must be positive"):
        TensorFactorisedLinear(3, 4, weight_variance=-1.0)
    with pytest.raises(ShapeError, match="in_features = 4"):
        TensorFactorisedLinear(4, 4)(torch.zeros(4, 3))
