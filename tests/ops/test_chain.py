"""The fused chain against the separate operators: values, gradients, gradients of gradients, in every layout."""

import itertools
from collections.abc import Callable

import pytest
import torch
from alike import assert_same, operands
from torch import Tensor

from whvi.ops import chain, layout, noisy_chain, normal, reference

# Leading shapes of x, s1 and s2, g.
LAYOUTS = {
    "one block": ((5,), (), ()),
    "blocks, shared g": ((5, 1), (3,), ()),
    "blocks, g per block": ((5, 1), (3,), (3,)),
    "blocks, g per row": ((5, 1), (3,), (5, 1)),
    "blocks, g per row and block": ((5, 1), (3,), (5, 3)),
    "everything per row": ((5,), (5,), (5,)),
    "scales per row": ((5, 1), (5, 3), (5, 1)),
    "stacked problems": ((2, 5, 1), (2, 1, 3), (2, 1, 1)),
    "one input, many draws": ((), (), (6,)),
    "one row": ((1,), (), (3, 1)),
    "empty batch": ((0,), (), ()),
    "no blocks": ((5, 1), (0,), ()),
    "mixed axes": ((2, 1, 4), (3, 1), (2, 1, 1)),
    "draws that serve many rows": ((2, 5, 1), (3,), (2, 1, 1)),
    "axes more mixed than kernels walk": ((2, 1, 4, 1), (3, 1, 5), (2, 1, 1, 1)),
}
SIZES = [1, 2, 8, 64, 128, 1024]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shapes", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_equals_separate_operators(shapes: tuple[tuple[int, ...], ...], size: int) -> None:
    x_lead, s_lead, g_lead = shapes
    x, s1, g, s2 = operands(size, (x_lead, s_lead, g_lead, s_lead))
    for a, b in itertools.product((s1, None), (s2, None)):
        present = [t for t in (x, a, g, b) if t is not None]
        assert_same(chain(x, a, g, b), reference.chain(x, a, g, b, 1 / size), present)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shapes", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_noise_equals_the_numbers_of_normal(shapes: tuple[tuple[int, ...], ...], size: int) -> None:
    x_lead, s_lead, g_lead = shapes
    x, s1, mean, log_std, s2 = operands(size, (x_lead, s_lead, g_lead, g_lead, s_lead))
    full = torch.broadcast_shapes(x_lead, s_lead, g_lead)
    rows = (*x_lead, *(1,) * (len(full) - len(x_lead))) if len(x_lead) < len(full) else x_lead
    for shape in {full, torch.broadcast_shapes(rows), ()}:
        noise = normal(11, 5, (*shape, size), dtype=torch.float64)
        expected = reference.chain(x, s1, mean + log_std.exp() * noise, s2, 1 / size)
        got = noisy_chain(x, s1, mean, log_std, s2, 11, 5, noise_shape=shape)
        assert_same(got, expected, [x, s1, mean, log_std, s2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("own", [False, True], ids=["float32 parameters", "parameters of x's dtype"])
def test_low_precision_is_computed_in_float32(dtype: torch.dtype, own: bool) -> None:
    x = torch.randn(6, 1, 32).to(dtype).requires_grad_()
    s1, g, s2 = (torch.randn(2, 32).to(dtype if own else torch.float32).requires_grad_() for _ in range(3))
    y = chain(x, s1, g, s2)
    exact = reference.chain(x.double(), s1.double(), g.double(), s2.double(), 1 / 32)
    unit = torch.finfo(dtype).eps
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=2 * unit, atol=4 * unit)
    dy = torch.randn_like(exact)
    wanted = torch.autograd.grad(exact, (x, s1, g, s2), dy)
    for leaf, gradient, want in zip(
        (x, s1, g, s2), torch.autograd.grad(y, (x, s1, g, s2), dy.to(dtype)), wanted, strict=True
    ):
        assert gradient.dtype == leaf.dtype
        torch.testing.assert_close(gradient.double(), want.double(), rtol=8 * unit, atol=32 * unit)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_gradcheck_to_second_order(size: int) -> None:
    x, s1, g, s2, log_std = operands(size, ((3, 1), (2,), (), (2,), ()))
    assert torch.autograd.gradcheck(chain, (x, s1, g, s2), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(chain, (x, s1, g, s2))

    def noisy(*tensors: Tensor) -> Tensor:
        a, b, mean, spread, c = tensors
        return noisy_chain(a, b, mean, spread, c, 3, noise_shape=(3, 1))

    assert torch.autograd.gradcheck(noisy, (x, s1, g, log_std, s2), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(noisy, (x, s1, g, log_std, s2))


def test_third_derivative() -> None:
    x, g = operands(4, ((2,), ()))

    def third(function: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        value = (function(x, g) ** 3).sum()
        for _ in range(3):
            (gradient,) = torch.autograd.grad(value, g, create_graph=True)
            value = (gradient**2).sum()
        return list(torch.autograd.grad(value, (x, g)))

    fused, separate = (
        third(lambda a, b: chain(a, None, b, None)),
        third(lambda a, b: reference.chain(a, None, b, None, 0.25)),
    )
    for a, b in zip(fused, separate, strict=True):
        torch.testing.assert_close(a, b)


def test_second_derivatives_in_forward_over_reverse_mode() -> None:
    x, g, s = (torch.randn(4, dtype=torch.float64) for _ in range(3))

    def hessian(function: Callable[..., Tensor]) -> tuple[tuple[Tensor, ...], ...]:
        return torch.func.hessian(lambda *a: (function(*a) ** 3).sum(), argnums=(0, 1, 2))(x, g, s)

    fused, separate = (
        hessian(lambda a, b, c: chain(a, c, b, c)),
        hessian(lambda a, b, c: reference.chain(a, c, b, c, 0.25)),
    )
    for row, other in zip(fused, separate, strict=True):
        for a, b in zip(row, other, strict=True):
            torch.testing.assert_close(a, b)


def test_tangents_of_a_gradient_without_a_second_graph() -> None:
    x, g, tangent = (torch.randn(4, dtype=torch.float64) for _ in range(3))
    results = []
    for function in (lambda a, b: chain(a, b, b, None), lambda a, b: reference.chain(a, b, b, None, 0.25)):
        with torch.autograd.forward_ad.dual_level():
            leaf = x.clone().requires_grad_()
            dual = torch.autograd.forward_ad.make_dual(g, tangent)
            (gradient,) = torch.autograd.grad(function(leaf, dual).sum(), leaf)
            results.append(torch.autograd.forward_ad.unpack_dual(gradient).tangent)
    torch.testing.assert_close(*results)


def test_only_what_is_needed_gets_a_gradient() -> None:
    x, s1, g, s2 = (torch.randn(8) for _ in range(4))
    s1.requires_grad_()
    chain(x, s1, g, s2).sum().backward()
    assert s1.grad is not None
    assert x.grad is None
    assert g.grad is None


def test_gradients_do_not_depend_on_the_number_of_threads() -> None:
    x, s1, g, s2 = operands(256, ((300, 1), (2,), (), (2,)), torch.float32)
    dy = torch.randn(300, 2, 256)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(torch.autograd.grad(chain(x, s1, g, s2), (x, s1, g, s2), dy))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_noncontiguous_operands() -> None:
    x = torch.randn(8, 6, dtype=torch.float64).T
    s = torch.randn(8, 3, dtype=torch.float64).T
    g = torch.randn(16, dtype=torch.float64)[::2]
    torch.testing.assert_close(chain(x[:, None], s, g, s), reference.chain(x[:, None], s, g, s, 1 / 8))


def test_forward_with_noise_allocates_input_and_output_only() -> None:
    """No tensor of the size of the batch beyond x and y: peak memory of the process, measured in a child."""
    import subprocess
    import sys

    code = (
        "import resource, torch, whvi\n"
        "torch.set_num_threads(1)\n"
        "x, p = torch.randn(4096, 4096), torch.zeros(4096)\n"
        "whvi.ops.noisy_chain(x[:2], p, p, p, p, 1)\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); y = whvi.ops.noisy_chain(x, p, p, p, p, 1); print((peak() - before) * 1024 / y.nbytes)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    from whvi import kernel_info

    if kernel_info().backend != "native":
        pytest.skip("the fallback holds its noise")
    assert float(done.stdout) < 1.1


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        ([(64,), (), ()], (1, 64, 1, 0)),
        ([(64, 1), (3,), ()], (1, 64, 3, 0)),
        ([(4, 64, 1), (4, 1, 3), (4, 1, 1)], (4, 64, 3, 0)),
        ([(2, 5, 7), (), ()], (1, 70, 1, 0)),
        ([(2, 1, 4), (3, 1), (2, 1, 1)], (2, 3, 4, 1)),
        ([(1, 2, 5, 1), (3,), (2, 1, 1)], (2, 5, 3, 2)),
        ([(2, 1, 4, 1), (3, 1, 5), (2, 1, 1, 1)], (1, 120, 1, 4)),
    ],
)
def test_layout_finds_groups_rows_and_blocks(leads: list[tuple[int, ...]], expected: tuple[int, int, int, int]) -> None:
    found = layout.plan(leads, stack=True)
    assert (found.groups, found.rows, found.blocks, found.expand) == expected
