"""Transposed convolutions: the shipped contract, and torch's own arguments."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose1d, conv_transpose2d

import whvi
from whvi.errors import ArgumentError, ShapeError
from whvi.nn import BayesianLayer, WHVIConvTranspose1d, WHVIConvTranspose2d
from whvi.nn.geometry import TransposedGeometry
from whvi.testing import LayerContract, perturb


class TestConvTranspose2d(LayerContract):
    samples = 500

    @pytest.fixture
    def layer(self) -> WHVIConvTranspose2d:
        return perturb(WHVIConvTranspose2d(2, 4, 2, stride=(1, 2), padding=(1, 0), groups=2, dtype=torch.float64))

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 2, 2, 2, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return conv_transpose2d(x, weight, bias, stride=(1, 2), padding=(1, 0), groups=2)


class TestConvTranspose1d(LayerContract):
    samples = 500

    @pytest.fixture
    def layer(self) -> WHVIConvTranspose1d:
        return perturb(WHVIConvTranspose1d(2, 3, 2, dilation=2, dtype=torch.float64))

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 2, 3, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return conv_transpose1d(x, weight, bias, dilation=2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 3, "padding": 1, "output_padding": 2},
        {"stride": (2,), "dilation": 3, "output_padding": (2,), "groups": 2, "bias": False},
    ],
    ids=str,
)
def test_the_arguments_of_torch(options: dict[str, Any]) -> None:
    """Law: to_dense gives torch's layer with the same arguments and the mean function."""
    one, other = WHVIConvTranspose1d(4, 6, 3, **options).double(), nn.ConvTranspose1d(4, 6, 3, **options).double()
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    plain = whvi.to_dense(one)
    assert isinstance(plain, nn.ConvTranspose1d)
    assert repr(plain) == repr(other)
    assert one.weight.shape == other.weight.shape
    with whvi.mean_mode(one):
        torch.testing.assert_close(plain(x), one(x))
        torch.testing.assert_close(plain(x[0]), one(x[0]))
    height, width = one.geometry.output_size(1, 5)
    assert (height, width) == (1, other(x).shape[-1])


def test_the_convolution_it_is_the_transpose_of() -> None:
    """Law: <y, convolve(x, weight)> == <x, conv2d(y, weight)>."""
    geometry = TransposedGeometry(3, 2, 3, 2, 1, output_padding=1)
    x, weight = torch.randn(5, 3, 4, 4, dtype=torch.float64), torch.randn(geometry.weight_shape, dtype=torch.float64)
    y = torch.randn(5, 2, *geometry.output_size(4, 4), dtype=torch.float64)
    torch.testing.assert_close((y * geometry.convolve(x, weight)).sum(), (x * conv2d(y, weight, None, 2, 1)).sum())


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_a_fresh_layer_keeps_the_size_of_its_input(stride: int) -> None:
    """Weights have the variance 2 / (number of them in an output): after ReLU, that keeps the mean square."""
    layer = WHVIConvTranspose2d(64, 64, 4, stride, bias=False)
    x, border = torch.randn(64, 64, 8, 8).relu(), 2 * stride
    with torch.no_grad():
        y = layer(x)[..., border:-border, border:-border]
    assert 0.5 < float(y.square().mean()) < 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WHVIConvTranspose2d(4, 6, 3, padding="same"), "padding in numbers"),
        (lambda: WHVIConvTranspose2d(4, 6, 3, padding_mode="reflect"), "padding_mode='zeros'"),
        (lambda: WHVIConvTranspose2d(4, 6, 3, stride=2, output_padding=2), "output_padding must be smaller"),
        (lambda: WHVIConvTranspose2d(4, 6, 3, groups=4), "does not exist in torch"),
    ],
)
def test_bad_settings_are_explained(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match="in_channels = 4"):
        WHVIConvTranspose2d(4, 6, 3)(torch.zeros(2, 3, 5, 5))
    with pytest.raises(ShapeError, match="its output would be empty"):
        WHVIConvTranspose2d(4, 6, 3, padding=2)(torch.zeros(2, 4, 2, 2))
