"""Convolutions after Winograd are convolutions."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import conv2d

from whvi.nn import winograd
from whvi.nn.geometry import ConvGeometry


def operands(count: int = 3, inputs: int = 5, outputs: int = 7, height: int = 8, width: int = 12) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = (count, inputs, height, width), (outputs, inputs, 3, 3)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def plain(x: Tensor, weight: Tensor) -> Tensor:
    return conv2d(x, weight, padding=1)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [(2, 2), (4, 4), (4, 8), (12, 8)])
def test_values_and_gradients_are_those_of_torch(size: tuple[int, int], layout: torch.memory_format) -> None:
    x, weight = operands(height=size[0], width=size[1])
    found, expected = winograd.convolve(x.contiguous(memory_format=layout), weight), plain(x, weight)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
    grad = torch.randn_like(expected)
    for a, b in zip(*(torch.autograd.grad(y, (x, weight), grad) for y in (found, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("images", [1, 2])
def test_images_are_taken_in_parts(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = operands(count=5, height=8, width=8)
    whole = winograd.convolve(x, weight)
    monkeypatch.setattr(winograd, "NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(winograd, "TILES_AT_ONCE", 4 * images)
    parts, way = [], winograd._convolve
    monkeypatch.setattr(winograd, "_convolve", lambda x, *rest: parts.append(len(x)) or way(x, *rest))
    found = winograd.convolve(x, weight)
    assert max(parts) == images
    assert sum(parts) == len(x)
    torch.testing.assert_close(found, whole)
    assert found.is_contiguous(memory_format=torch.channels_last)
    grad = torch.randn_like(whole)
    for a, b in zip(*(torch.autograd.grad(y, (x, weight), grad) for y in (found, whole)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("side", [2, 4])
def test_second_derivatives_and_vmap(side: int) -> None:
    assert torch.autograd.gradgradcheck(winograd.convolve, operands(1, 2, 2, side, side))

    def gradients(way: Any) -> Any:
        return torch.vmap(torch.func.grad(lambda x, weight: way(x, weight).square().sum(), (0, 1)))

    several = [torch.stack([each.detach(), 2 * each.detach()]) for each in operands(height=side, width=side)]
    for a, b in zip(gradients(winograd.convolve)(*several), gradients(plain)(*several), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("side", "bound"), [(8, 3e-5), (2, 3e-6)])
def test_single_precision_loses_one_digit_at_most(side: int, bound: float) -> None:
    x, weight = (each.detach() for each in operands(4, 128, 128, side, side))
    exact = plain(x, weight)
    off = winograd.convolve(x.float(), weight.float()) - exact
    assert float(off.abs().max() / exact.abs().max()) < bound


WIDE = {"in_channels": 128, "out_channels": 128, "kernel_size": 3, "padding": 1}
IMAGES = (16, 128, 8, 8)


@pytest.mark.parametrize(
    ("change", "shape", "used"),
    [
        ({}, IMAGES, True),
        ({"padding": "same"}, IMAGES, True),
        ({}, (2, 8, 128, 8, 8), True),
        ({}, (15, 128, 8, 8), False),  # too few tiles
        ({}, (64, 128, 2, 2), True),
        ({}, (63, 128, 2, 2), False),
        ({}, (64, 128, 2, 4), False),
        ({"in_channels": 64, "out_channels": 64}, (64, 64, 2, 2), True),
        ({"in_channels": 64, "out_channels": 64}, (16, 64, 8, 8), False),
        ({}, (16, 128, 8, 10), False),  # not a multiple of the tile
        ({"out_channels": 127}, IMAGES, False),
        ({"in_channels": 32, "out_channels": 256}, (16, 32, 8, 8), False),
        ({"stride": 2}, IMAGES, False),
        ({"dilation": 2}, IMAGES, False),
        ({"padding": 0}, IMAGES, False),
        ({"kernel_size": 5, "padding": 2}, IMAGES, False),
        ({"groups": 2}, IMAGES, False),
        ({"padding_mode": "circular"}, IMAGES, False),
    ],
    ids=str,
)
def test_a_geometry_takes_it_where_it_pays(
    change: dict[str, Any], shape: tuple[int, ...], used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    geometry, calls = ConvGeometry(**(WIDE | change)), []
    way = winograd.convolve
    monkeypatch.setattr(winograd, "convolve", lambda x, weight: calls.append(1) or way(x, weight))
    layer = torch.nn.Conv2d(**(WIDE | change))
    x = torch.randn(shape)
    expected = layer(x.flatten(0, -4)).unflatten(0, shape[:-3])
    torch.testing.assert_close(geometry.convolve(x, layer.weight, layer.bias), expected, rtol=1e-3, atol=1e-4)
    assert bool(calls) == used


def test_a_pass_without_gradients_has_to_be_wider() -> None:
    x, weight = torch.randn(IMAGES), torch.randn(128, 128, 3, 3, requires_grad=True)
    assert winograd.pays(x, weight)
    with torch.no_grad():
        assert not winograd.pays(x, weight)
        assert winograd.pays(torch.randn(16, 256, 8, 8), torch.randn(256, 256, 3, 3))
        assert winograd.pays(torch.randn(64, 128, 2, 2), weight)
        assert not winograd.pays(torch.randn(64, 64, 2, 2), torch.randn(64, 64, 3, 3))


def test_only_eager_single_precision_on_a_cpu() -> None:
    x, weight = torch.randn(IMAGES, requires_grad=True), torch.randn(128, 128, 3, 3)
    assert winograd.pays(x, weight)
    assert not winograd.pays(x.double(), weight.double())
    assert not winograd.pays(x.bfloat16(), weight.bfloat16())
    assert not winograd.pays(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not winograd.pays(x, weight)


def test_a_traced_convolution_is_torchs_own() -> None:
    weight = torch.randn(128, 128, 3, 3, requires_grad=True)
    geometry = ConvGeometry(**WIDE)
    graph = make_fx(lambda x: geometry.convolve(x, weight))(torch.randn(IMAGES))
    assert "convolution" in graph.code
    assert "bmm" not in graph.code


def test_an_exported_convolution_is_torchs_own_for_any_number_of_images() -> None:
    from whvi.nn import MCDropout

    layer = MCDropout(torch.nn.Conv2d(128, 128, 3, padding=1), p=0.0)
    program = torch.export.export(layer, (torch.randn(IMAGES),), dynamic_shapes=({0: torch.export.Dim("images")},))
    assert "conv2d" in program.graph_module.code
    assert program.module()(torch.randn(3, *IMAGES[1:])).shape == (3, *IMAGES[1:])
