"""Convolutions along one axis: the shipped contract, and torch's own arguments."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d

import whvi
from whvi.errors import ShapeError
from whvi.nn import BayesianLayer, WHVIConv1d
from whvi.testing import LayerContract, perturb


class TestConv1d(LayerContract):
    samples = 1000

    @pytest.fixture
    def layer(self) -> WHVIConv1d:
        return perturb(WHVIConv1d(2, 4, 2, stride=2, groups=2, dtype=torch.float64))

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 2, 7, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return conv1d(x, weight, bias, stride=2, groups=2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 2, "dilation": (2,)},
        {"padding": "same", "padding_mode": "reflect"},
        {"stride": (3,), "bias": False},
    ],
    ids=str,
)
def test_the_arguments_of_torch(options: dict[str, Any]) -> None:
    """Law: to_dense gives nn.Conv1d with the same arguments and the mean function."""
    layer, x = WHVIConv1d(4, 6, 3, dtype=torch.float64, **options), torch.randn(2, 4, 9, dtype=torch.float64)
    plain = whvi.to_dense(layer)
    assert isinstance(plain, nn.Conv1d)
    for name in ("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"):
        assert getattr(layer, name) == getattr(plain, name) == getattr(nn.Conv1d(4, 6, 3, **options), name), name
    with whvi.mean_mode(layer):
        torch.testing.assert_close(plain(x), layer(x))
        torch.testing.assert_close(plain(x[0]), layer(x[0]))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 9), (4, 2)])
def test_shapes_that_do_not_fit_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError):
        WHVIConv1d(4, 6, 3)(torch.zeros(shape))
