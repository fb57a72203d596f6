"""WHVIConv2d under fixed draws is torch's convolution with its dense weight, whatever the geometry."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.nn import WHVIConv2d, conv
from whvi.testing import cover_pairs
from whvi_paper.baselines import LowRankMCDropoutConv2d, MatrixGaussianConv2d

GEOMETRIES = [
    {"kernel_size": 1},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": (3, 2), "padding": (1, 0), "stride": (1, 2)},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 2, "padding": "same", "dilation": 2},
    {"kernel_size": 3, "padding": "valid"},
    {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": (2, 1), "padding_mode": "replicate", "dilation": (2, 1)},
    {"kernel_size": 3, "padding": 1, "padding_mode": "circular", "stride": 2},
    {"kernel_size": 3, "padding": 1, "groups": 2},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 4},
    {"kernel_size": 1, "groups": 2},
]


def plain(layer: WHVIConv2d, x: Tensor, weight: Tensor, bias: Tensor, options: dict[str, Any]) -> Tensor:
    """nn.Conv2d itself with a given weight."""
    reference = nn.Conv2d(4, 8, **options, dtype=x.dtype)  # type: ignore[arg-type]
    return torch.func.functional_call(reference, {"weight": weight, "bias": bias}, x)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("options", "built", "share_g"), cover_pairs(GEOMETRIES, (True, False), (True, False)), ids=str
)
def test_equals_the_convolution_with_its_weight(
    options: dict[str, Any], built: bool, share_g: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the filters of each example are built or not."""
    monkeypatch.setattr(conv, "_MANY", 0 if built else inf)
    torch.manual_seed(0)
    layer = WHVIConv2d(4, 8, **options, share_g=share_g, dtype=torch.float64)  # type: ignore[arg-type]
    x = torch.randn(6, 4, 7, 8, dtype=torch.float64, requires_grad=True)
    leaves = [x, *layer.parameters()]
    for draws, parts in ((1, 1), (3, 3), ("example", 6)):
        with whvi.sampling(layer, draws) as drawn:
            y = layer(x)
        draw = drawn[layer]._replace(shape=(parts,))
        if draws == 1:
            draw = drawn[layer]
        weight, bias = layer.weight_at(draw), layer.bias_value(draw)
        if draws == 1:
            weight, bias = weight[None], bias[None]
        pieces = zip(x.chunk(parts), weight, bias, strict=True)
        expected = torch.cat([plain(layer, *piece, options) for piece in pieces])
        torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
        dy = torch.randn_like(y)
        for a, b in zip(
            torch.autograd.grad(y, leaves, dy, retain_graph=True),
            torch.autograd.grad(expected, leaves, dy),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("many", [0, inf])
def test_one_example_and_no_example(many: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "_MANY", many)
    layer = WHVIConv2d(2, 3, 3)
    assert layer(torch.randn(2, 5, 5)).shape == (3, 3, 3)
    assert layer(torch.randn(0, 2, 5, 5)).shape == (0, 3, 3, 3)
    assert layer(torch.randn(2, 7, 2, 5, 5)).shape == (2, 7, 3, 3, 3)


def test_an_example_has_one_draw_for_all_positions() -> None:
    layer = WHVIConv2d(1, 1, 1)
    y = layer(torch.ones(3, 1, 4, 4))
    assert torch.equal(y, y[:, :, :1, :1].expand_as(y))
    assert len(y[:, 0, 0, 0].unique()) == 3


def test_alexnet_with_filters_too_costs_less_than_one_percent() -> None:
    """The paper has 189 thousand parameters there, 0.8 % of the dense network."""
    channels = [(3, 64), (64, 192), (192, 384), (384, 256), (256, 256)]
    features = [(1024, 4096), (4096, 4096), (4096, 10)]
    layers = [*(WHVIConv2d(a, b, 3) for a, b in channels), *(whvi.nn.WHVILinear(a, b) for a, b in features)]
    total = sum(p.numel() for layer in layers for p in layer.parameters())
    assert total < 0.008 * 23_272_266


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": 3, "groups": 3}, "in_channels must be divisible by groups"),
        ({"kernel_size": 3, "padding": "full"}, "padding"),
        ({"kernel_size": 3, "padding_mode": "mirror"}, "padding_mode"),
        ({"kernel_size": 3, "padding": "same", "stride": 2}, "strided"),
        ({"kernel_size": 3, "stride": 0}, "stride"),
    ],
)
def test_refuses_what_is_no_convolution(options: dict[str, Any], said: str) -> None:
    with pytest.raises(whvi.WhviError, match=said):
        WHVIConv2d(4, 8, **options)  # type: ignore[arg-type]


def test_refuses_inputs_that_do_not_fit() -> None:
    layer = WHVIConv2d(4, 8, 3)
    with pytest.raises(whvi.WhviError, match="in_channels = 4"):
        layer(torch.randn(2, 3, 8, 8))
    with pytest.raises(whvi.WhviError, match="smaller than the kernel"):
        layer(torch.randn(2, 4, 2, 8))


@pytest.mark.parametrize(
    "make",
    [
        whvi.nn.WHVIConv2d,
        whvi.nn.MeanFieldConv2d,
        MatrixGaussianConv2d,
        lambda *sizes, **options: LowRankMCDropoutConv2d(*sizes, 2, **options),
    ],
)
def test_attributes_are_those_of_conv2d(make: Callable[..., nn.Module]) -> None:
    options: dict[str, Any] = {"stride": 2, "padding": 1, "padding_mode": "reflect"}
    layer, plain = make(3, 4, (3, 5), **options), nn.Conv2d(3, 4, (3, 5), **options)
    for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "padding_mode"):
        assert getattr(layer, name) == getattr(plain, name)


def test_channels_last_images_stay_so() -> None:
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert WHVIConv2d(3, 4, 3, draws="example")(x).is_contiguous(memory_format=torch.channels_last)
