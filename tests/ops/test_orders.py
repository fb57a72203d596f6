"""Hadamard matrices of order m 2^k: the construction, its table in C++, and the transform of such sizes."""

import math
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import whvi
from whvi.ops import chain, fallback, is_order, native, next_order, noisy_chain, normal, reference
from whvi.ops.orders import FIELDS, additions, paley, split

CSRC = Path(whvi.__file__).parent / "csrc"
SIZES = [m << k for m in FIELDS for k in range(9)]
USED = [384, 576, 640, 768, 1536, 3072, 3584]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INSTRUCTION_SETS = [name for name in ("avx512", "avx2", "generic") if native.use_instruction_set(name)]
if INSTRUCTION_SETS:
    native.use_instruction_set(INSTRUCTION_SETS[0])
native_kernel = pytest.mark.skipif(not INSTRUCTION_SETS, reason="no native kernel: the fallback multiplies matrices")


@pytest.fixture(params=INSTRUCTION_SETS or ["fallback"])
def instruction_set(request: pytest.FixtureRequest) -> object:
    if INSTRUCTION_SETS:
        native.use_instruction_set(request.param)
    yield request.param
    if INSTRUCTION_SETS:
        native.use_instruction_set(INSTRUCTION_SETS[0])


@pytest.mark.parametrize("size", [1, 2, 64, *FIELDS, 24, 56, 576, 768, 3584])
def test_matrix_is_symmetric_and_orthogonal(size: int) -> None:
    h = reference.hadamard(size)
    assert torch.equal(h.abs(), torch.ones_like(h))
    assert torch.equal(h, h.T)
    assert torch.equal(h @ h, size * torch.eye(size, dtype=h.dtype))


@pytest.mark.parametrize("m", FIELDS)
def test_matrix_is_paleys_second_construction(m: int) -> None:
    """Blocks (1, -1; -1, -1) on the diagonal, +-(1, 1; 1, -1) elsewhere, the signs those of a conference matrix."""
    q, h = FIELDS[m], paley(m)
    assert m == 2 * (q + 1)
    own = torch.tensor([[1.0, -1.0], [-1.0, -1.0]], dtype=h.dtype)
    one = torch.eye(q + 1, dtype=h.dtype)
    conference = h[::2, ::2] - one
    sums = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=h.dtype)
    assert torch.equal(h, torch.kron(conference, sums) + torch.kron(one, own))
    assert torch.equal(conference @ conference, q * one)
    assert torch.equal(conference[1:, 1:].sum(0), torch.zeros(q, dtype=h.dtype))


@pytest.mark.parametrize("m", FIELDS)
def test_additions_are_few_and_right(m: int) -> None:
    q = FIELDS[m]
    pairs, sums = additions(m)
    values = list(torch.eye(q))
    for a, b in pairs:
        values.append(values[a] + values[b])
    rows = torch.stack([sum(values[i] for i in which) for which in sums])
    assert torch.equal(rows[-1], torch.ones(q))
    assert torch.equal(2 * rows[:-1] - 1 + torch.eye(q), paley(m)[2::2, 2::2].float() - torch.eye(q))
    count = len(pairs) + sum(len(which) - 1 for which in sums)
    per_element = (2 * (count + 1 + 1 + 2 * q) + m) / m
    assert per_element < {12: 5, 20: 6, 28: 7, 36: 8.1}[m]


def test_table_of_the_kernel_is_that_of_the_construction() -> None:
    made = runpy.run_path(str(CSRC / "paley.py"))["header"]()
    assert (CSRC / "paley.h").read_text() == made + "\n"


def test_orders_up_to_a_thousand() -> None:
    known = {m << k for m in (1, 12, 20, 28, 36) for k in range(12)}
    assert [n for n in range(-5, 1001) if is_order(n)] == sorted(n for n in known if n <= 1000)
    for n in range(1, 1001):
        assert next_order(n) == min(order for order in known if order >= n)
        assert math.prod(split(n)) == n or not is_order(n)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_dense_product(size: int, dtype: torch.dtype) -> None:
    x = torch.randn(3, size).to(dtype)
    dense = x.double() @ reference.hadamard(size) * 0.5
    bound = {torch.float64: 2e-15, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 4e-3}[dtype]
    for fwht in (whvi.fwht, lambda t, scale: fallback.fwht(t, scale)):
        assert (fwht(x, scale=0.5).double() - dense).norm() < bound * dense.norm()


@native_kernel
def test_bits_of_the_reference(instruction_set: str) -> None:
    for size in [*SIZES, 12 << 10, 36 << 12]:
        for dtype in DTYPES:
            rows = 1 if size > 4096 else 5
            x = torch.randn(rows, size + 3).to(dtype)[:, 1:-2]
            assert torch.equal(whvi.fwht(x, scale=0.25), reference.butterflies(x, 0.25)), (size, dtype)


@pytest.mark.parametrize("size", [12, 40, 768, 3584])
def test_is_its_own_inverse_and_writes_out(size: int) -> None:
    x = torch.randn(6, size, dtype=torch.float64)
    y = whvi.fwht(x, scale=size**-0.5)
    torch.testing.assert_close(whvi.fwht(y, scale=size**-0.5), x)
    whvi.fwht(x, scale=size**-0.5, out=x)
    assert torch.equal(x, y)


@pytest.mark.parametrize("size", [12, 20, 28, 36, 24])
def test_gradients_of_any_order(size: int) -> None:
    x = torch.randn(2, size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: whvi.fwht(t, scale=0.3), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda t: whvi.fwht(t, scale=0.3) ** 3, (x,))


def test_vmap_compile_and_export() -> None:
    x = torch.randn(3, 5, 48)
    expected = whvi.fwht(x)
    torch.testing.assert_close(torch.vmap(whvi.fwht, in_dims=1, out_dims=1)(x), expected)
    torch.testing.assert_close(torch.compile(whvi.fwht, backend="aot_eager", fullgraph=True)(x), expected)

    class Module(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return chain(whvi.fwht(x), None, x, None)

    exported = torch.export.export(Module(), (x,)).module()
    torch.testing.assert_close(exported(x), chain(expected, None, x, None))


@pytest.mark.parametrize("size", [12, 56, 96, 144, *USED])
@pytest.mark.parametrize("dtype", DTYPES)
def test_chain_and_its_gradients(instruction_set: str, size: int, dtype: torch.dtype) -> None:
    """Per-row and shared vectors against float64 and autograd; bounds are relative to the norm."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    x, dy = torch.randn(5, 1, size).to(dtype), torch.randn(5, 2, size).to(dtype)
    s1, g, s2 = (torch.randn(*lead, size, dtype=compute) for lead in ((2,), (5, 2), (2,)))
    wide = [t.double().requires_grad_() for t in (x, s1, g, s2)]
    h = reference.hadamard(size)
    expected = wide[1] * ((wide[2] * ((wide[3] * wide[0]) @ h)) @ h) / size
    leaves = [t.requires_grad_() for t in (x, s1, g, s2)]
    y = chain(*leaves)
    bound = {torch.float64: 1e-14, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}[dtype]
    pairs = zip(
        [y, *torch.autograd.grad(y, leaves, dy)],
        [expected, *torch.autograd.grad(expected, wide, dy.double())],
        strict=True,
    )
    for got, want in pairs:
        assert (got.double() - want).norm() <= bound * want.norm()


@pytest.mark.parametrize("size", [20, 72, 768])
def test_noisy_chain_draws_the_numbers_of_normal(instruction_set: str, size: int) -> None:
    x = torch.randn(7, size)
    s1, mean, log_std, s2 = (torch.randn(size) for _ in range(4))
    y = noisy_chain(x, s1, mean, log_std, s2, 11, 5)
    expected = chain(x, s1, mean + log_std.exp() * normal(11, 5, (7, size)), s2)
    torch.testing.assert_close(y, expected)


def test_chain_has_derivatives_of_second_order() -> None:
    leaves = [torch.randn(12, dtype=torch.float64, requires_grad=True) for _ in range(4)]
    assert torch.autograd.gradgradcheck(chain, leaves)


@pytest.mark.parametrize("size", [2, 8, 64])
def test_sequency_order_sorts_rows_by_their_changes_of_sign(size: int) -> None:
    walsh = whvi.fwht(torch.eye(size), order="sequency")
    assert (walsh[:, 1:] != walsh[:, :-1]).sum(1).tolist() == list(range(size))
    assert torch.equal(walsh, walsh.T)
    x = torch.randn(3, size, requires_grad=True)
    assert torch.equal(whvi.fwht(x, order="sequency", scale=0.5), whvi.fwht(x[:, _natural(size)], scale=0.5))
    torch.testing.assert_close(torch.autograd.grad(whvi.fwht(x, order="sequency").sum(), x)[0][0], walsh.sum(0))
    y = x.detach().clone()
    whvi.fwht(y, order="sequency", out=y)
    torch.testing.assert_close(y, x.detach() @ walsh)


def test_sequency_order_and_padding_under_tracers() -> None:
    """In graphs and under vmap as in eager execution, and a tracer leaves nothing behind."""
    x = torch.randn(3, 5, 16)
    for function in (lambda t: whvi.fwht(t, order="sequency"), lambda t: whvi.hadamard_transform(t[..., :11])):
        expected = function(x)
        for traced in (
            torch.vmap(function, in_dims=1, out_dims=1),
            torch.compile(function, backend="aot_eager", fullgraph=True),
            make_fx(function, tracing_mode="fake")(x),
        ):
            torch.testing.assert_close(traced(x), expected)
    make_fx(lambda t: whvi.fwht(t, order="sequency"), tracing_mode="fake")(torch.ones(512))
    assert whvi.fwht(torch.ones(512), order="sequency")[0] == 512


def _natural(size: int) -> Tensor:
    h = reference.hadamard(size)
    return (h[:, 1:] != h[:, :-1]).sum(1)


def test_sequency_order_is_refused_where_rows_change_sign_equally_often() -> None:
    for m in FIELDS:
        h = paley(m)
        assert (h[:, 1:] != h[:, :-1]).sum(1).unique().numel() < m
        with pytest.raises(whvi.errors.ArgumentError, match=f"{m}.*equally often"):
            whvi.fwht(torch.ones(m), order="sequency")
    with pytest.raises(whvi.errors.ArgumentError, match='"natural" or "sequency", got \'dyadic\''):
        whvi.fwht(torch.ones(4), order="dyadic")


@pytest.mark.parametrize("size", [1, 3, 64, 100, 768])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hadamard_transform_pads_and_cuts(size: int, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, size).to(dtype)
    order = 1 << (size - 1).bit_length()
    expected = (x.double() @ reference.hadamard(order)[:size, :size] * 0.5).to(dtype)
    y = whvi.hadamard_transform(x, 0.5)
    assert y.shape == x.shape
    assert y.dtype == dtype
    torch.testing.assert_close(y, expected, atol=1e-2 if dtype in DTYPES[2:] else 1e-4, rtol=1e-2)


def test_hadamard_transform_is_differentiable() -> None:
    x = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(whvi.hadamard_transform, (x,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whvi.fwht(torch.ones(2, 700)), r"size 700.*next size that works is 768: whvi.pad\(x, 768\)"),
        (lambda: whvi.fwht(torch.ones(6)), "next size that works is 8"),
        (lambda: whvi.fwht(torch.ones(44)), "next size that works is 48"),
        (lambda: chain(torch.ones(13), None, torch.ones(13), None), "next size that works is 16"),
        (lambda: whvi.pad(torch.ones(700), 600), "cannot be padded to 600"),
        (lambda: whvi.hadamard_transform(torch.ones(2, 0)), "empty"),
        (lambda: whvi.hadamard_transform(torch.tensor(1.0)), "scalar"),
    ],
)
def test_wrong_sizes_are_refused_with_the_next_that_works(call: Callable[[], object], message: str) -> None:
    with pytest.raises(whvi.errors.ShapeError, match=message):
        call()


def test_padding_to_the_next_order() -> None:
    x = torch.ones(2, 700)
    assert whvi.pad(x, next_order(700)).shape == (2, 768)
    assert whvi.pad(x).shape == (2, 1024)
    assert whvi.pad(x, 700) is x
