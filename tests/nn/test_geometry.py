"""A convolution is a product with patches."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.nn.geometry import ConvGeometry
from whvi.testing import cover_pairs

KERNELS: list[dict[str, Any]] = [
    {"kernel_size": 1},
    {"kernel_size": 3, "stride": 2},
    {"kernel_size": (2, 3), "stride": (1, 2)},
    {"kernel_size": (3, 2), "dilation": (1, 2)},
    {"kernel_size": 2, "stride": (3, 1), "dilation": 2},
]
PADDINGS: list[Any] = [0, (1, 2), "same", "valid"]
MODES = ["zeros", "reflect", "replicate", "circular"]


def exists(kernel: dict[str, Any], padding: object, mode: str, groups: int) -> bool:
    """torch has padding="same" for a stride of one only."""
    return padding != "same" or "stride" not in kernel


CASES = [
    {**kernel, "padding": padding, "padding_mode": mode, "groups": groups}
    for kernel, padding, mode, groups in cover_pairs(KERNELS, PADDINGS, MODES, (1, 2), keep=exists)
]


def by_patches(geometry: ConvGeometry, x: Tensor, weight: Tensor) -> Tensor:
    matrix = weight.reshape(geometry.groups, geometry.out_channels // geometry.groups, -1)
    return geometry.fold_output(geometry.patches(x) @ matrix.mT, *x.shape[-2:])


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_patches_times_weight_is_the_convolution_of_torch(case: dict[str, Any]) -> None:
    torch.manual_seed(0)
    geometry = ConvGeometry(4, 6, **case)
    plain = torch.nn.Conv2d(4, 6, **case, dtype=torch.float64)
    x = torch.randn(3, 4, 7, 8, dtype=torch.float64, requires_grad=True)
    expected = plain(x)
    torch.testing.assert_close(geometry.convolve(x, plain.weight, plain.bias), expected, rtol=1e-12, atol=1e-12)
    assert plain.bias is not None
    got = by_patches(geometry, x, plain.weight) + plain.bias[:, None, None]
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    inputs = (x, plain.weight)
    for a, b in zip(torch.autograd.grad(got.sum(), inputs), torch.autograd.grad(expected.sum(), inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert geometry.output_size(7, 8) == expected.shape[-2:]
    assert geometry.weight_shape == plain.weight.shape


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lead", [(), (0,), (2, 3), (2, 0), (1, 2, 3)])
def test_any_leading_axes(lead: tuple[int, ...], mode: str) -> None:
    geometry = ConvGeometry(4, 6, 3, stride=2, padding=1, groups=2, padding_mode=mode)
    x = torch.randn(*lead, 4, 7, 8, dtype=torch.float64)
    weight = torch.randn(geometry.weight_shape, dtype=torch.float64)
    expected = geometry.convolve(x, weight)
    assert expected.shape == (*lead, 6, 4, 4)
    assert geometry.patches(x).shape == (*lead, 2, 16, 18)
    torch.testing.assert_close(by_patches(geometry, x, weight), expected)


@pytest.mark.parametrize("lead", [(), (2,), (0,), (2, 3)])
def test_a_kernel_for_each_part(lead: tuple[int, ...]) -> None:
    geometry = ConvGeometry(4, 6, 3, stride=2, padding=1, groups=2, padding_mode="circular")
    x = torch.randn(3, *lead, 4, 7, 8, dtype=torch.float64)
    weight = torch.randn(3, *geometry.weight_shape, dtype=torch.float64)
    expected = torch.stack([geometry.convolve(part, kernel) for part, kernel in zip(x, weight, strict=True)])
    torch.testing.assert_close(geometry.convolve_each(x, weight), expected, rtol=1e-12, atol=1e-12)


def test_construction_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    ConvGeometry(3, 4, 5)
    assert torch.equal(before, torch.get_rng_state())


def test_vmap() -> None:
    geometry = ConvGeometry(4, 6, 3, stride=2, padding=1, dilation=2)
    x = torch.randn(5, 2, 4, 9, 9, requires_grad=True)
    torch.testing.assert_close(torch.vmap(geometry.patches)(x), geometry.patches(x))
    grads = torch.vmap(torch.func.grad(lambda z: geometry.patches(z).square().sum()))(x)
    torch.testing.assert_close(grads, torch.autograd.grad(geometry.patches(x).square().sum(), x)[0])


@pytest.mark.parametrize("padding", [1, "same"])
def test_copies_compile_and_export(padding: Any) -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.geometry = ConvGeometry(4, 6, (2, 3), padding=padding, padding_mode="circular", groups=2)
            self.plain = ConvGeometry(4, 6, 3, padding=padding)

        def forward(self, x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return by_patches(self.geometry, x, w), self.geometry.convolve(x, w), self.plain.convolve(x, v)

    module = Both()
    assert not module.state_dict()
    x, w, v = torch.randn(3, 4, 5, 6), torch.randn(6, 2, 2, 3), torch.randn(6, 4, 3, 3)
    expected = module(x, w, v)
    for other in (
        copy.deepcopy(module),
        torch.compile(module, fullgraph=True, backend="aot_eager"),
        torch.export.export(module, (x, w, v), dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None, None)).module(),
    ):
        for got, want in zip(other(x, w, v), expected, strict=True):
            torch.testing.assert_close(got, want)
    again = pickle.loads(pickle.dumps(module.geometry))
    torch.testing.assert_close(again.convolve(x, w), functional.conv2d(module.geometry._pad(x), w, groups=2))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"in_channels": 0}, ArgumentError, "in_channels must be at least 1, got 0"),
        ({"out_channels": 4.0}, InputTypeError, "out_channels must be an int, got 4.0"),
        ({"kernel_size": -1}, ArgumentError, "kernel_size must be at least 1"),
        ({"kernel_size": (1, 2, 3)}, InputTypeError, "kernel_size must be an int or two of them"),
        ({"stride": 0}, ArgumentError, "stride must be at least 1"),
        ({"dilation": (1, 0)}, ArgumentError, "dilation must be at least 1"),
        ({"padding": -1}, ArgumentError, "padding must be at least 0"),
        ({"padding": "some"}, ArgumentError, "padding"),
        ({"padding": "same", "stride": 2}, ArgumentError, "padding='same'"),
        ({"padding_mode": "mirror"}, ArgumentError, "padding_mode"),
        ({"groups": 3}, ArgumentError, "groups"),
        ({"groups": True}, InputTypeError, "groups must be an int"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        ConvGeometry(**{"in_channels": 4, "out_channels": 4, "kernel_size": 3, **arguments})


def test_bad_inputs_are_named() -> None:
    geometry = ConvGeometry(4, 4, 3)
    geometry.check(torch.zeros(4, 3, 3))
    with pytest.raises(ShapeError, match="in_channels = 4"):
        geometry.check(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ShapeError, match="must be"):
        geometry.check(torch.zeros(4, 4))
    with pytest.raises(ShapeError, match="smaller than the kernel"):
        geometry.check(torch.zeros(4, 2, 8))
