"""whvi.fwht against the dense Hadamard matrix and, bit for bit, against the reference."""

import itertools
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import whvi
from whvi.ops import fallback, native, reference

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SIZES = [2**k for k in range(14)]
INSTRUCTION_SETS = [name for name in ("avx512", "avx2", "generic") if native.use_instruction_set(name)]
BEST = INSTRUCTION_SETS[0] if INSTRUCTION_SETS else None
if BEST is not None:
    native.use_instruction_set(BEST)


@pytest.fixture(params=INSTRUCTION_SETS or ["fallback"])
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    if BEST is not None:
        assert native.use_instruction_set(request.param)
    yield str(request.param)
    if BEST is not None:
        native.use_instruction_set(BEST)


@pytest.fixture(scope="module", params=SIZES)
def hadamard(request: pytest.FixtureRequest) -> Tensor:
    return reference.hadamard(request.param)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_dense_product(hadamard: Tensor, dtype: torch.dtype) -> None:
    x = torch.randn(3, len(hadamard)).to(dtype)
    dense = x.double() @ hadamard * 0.5
    relative = (whvi.fwht(x, scale=0.5).double() - dense).norm() / dense.norm()
    assert relative < {torch.float64: 1e-15, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 4e-3}[dtype]


@pytest.mark.skipif(BEST is None, reason="no native kernel: the fallback multiplies matrices in another order")
def test_bits_of_the_reference_on_random_layouts(instruction_set: str) -> None:
    """Ten thousand shapes, strides, offsets and thread counts over all instruction sets."""
    generator = torch.Generator().manual_seed(INSTRUCTION_SETS.index(instruction_set))
    cases = 10_000 // len(INSTRUCTION_SETS) + 1

    def pick(*choices: int) -> int:
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    threads = torch.get_num_threads()
    try:
        for _ in range(cases):
            dtype = DTYPES[pick(0, 0, 1, 1, 2, 3)]
            size = 2 ** pick(*range(12))
            lead = [pick(0, 1, 2, 3, 5) for _ in range(pick(0, 1, 1, 2))] if size > 64 else [pick(1, 7, 33), pick(1, 9)]
            offset, step = pick(0, 1, 3), pick(1, 1, 2)
            flat = torch.randn(offset + step * size * max(1, int(torch.tensor(lead).prod())), generator=generator).to(
                dtype
            )
            x = flat[offset::step][: size * int(torch.tensor(lead).prod())].reshape(*lead, size)
            if len(lead) == 2 and pick(0, 1):
                x = x.transpose(0, 1)
            before = x.clone()
            torch.set_num_threads(pick(1, 2, 3))
            result = whvi.fwht(x, scale=0.25)
            case = (dtype, x.shape, x.stride(), x.storage_offset(), torch.get_num_threads())
            assert torch.equal(result, reference.butterflies(x, 0.25)), case
            assert torch.equal(x, before)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(BEST is None, reason="no native kernel")
@pytest.mark.parametrize("size", [2**14, 2**16, 2**20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bits_of_the_reference_on_long_rows(instruction_set: str, size: int, dtype: torch.dtype) -> None:
    x = torch.randn(2, size).to(dtype)
    assert torch.equal(whvi.fwht(x), reference.butterflies(x))


@pytest.mark.parametrize("size", [1, 2, 8, 64, 1024])
def test_is_its_own_inverse(size: int) -> None:
    x = torch.randn(5, size, dtype=torch.float64)
    torch.testing.assert_close(whvi.fwht(whvi.fwht(x, scale=size**-0.5), scale=size**-0.5), x)


def test_fallback_is_the_same_transform() -> None:
    for size, dtype in itertools.product(SIZES[:11], DTYPES):
        x = torch.randn(4, size).to(dtype)
        torch.testing.assert_close(fallback.fwht(x, 0.5), whvi.fwht(x, scale=0.5), atol=1e-4 * size, rtol=1e-2)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0, 4), (8,), (2, 3, 4, 16)])
def test_any_leading_shape(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    assert torch.equal(whvi.fwht(x), reference.butterflies(x)) or BEST is None
    assert whvi.fwht(x).shape == shape


@pytest.mark.parametrize("size", [4, 256, 8192])
def test_out_receives_the_result(size: int) -> None:
    x = torch.randn(6, size)
    expected = whvi.fwht(x, scale=2.0)
    out = torch.empty_like(x)
    assert whvi.fwht(x, scale=2.0, out=out) is out
    assert torch.equal(out, expected)
    whvi.fwht(x, scale=2.0, out=x)
    assert torch.equal(x, expected)


def test_out_marks_its_tensor_as_changed() -> None:
    """Autograd must notice that a saved tensor was overwritten."""
    w, u = torch.ones(4, requires_grad=True), torch.ones(4)
    y = (w * u).sum()
    whvi.fwht(u, out=u)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_out_may_be_a_neighbour_in_the_same_storage() -> None:
    both = torch.randn(2, 8)
    expected = whvi.fwht(both[0])
    whvi.fwht(both[0], out=both[1])
    assert torch.equal(both[1], expected)


def test_nan_and_infinity_stay_in_their_row() -> None:
    x = torch.ones(3, 16)
    x[1, 4] = float("nan")
    y = whvi.fwht(x)
    assert y[1].isnan().all()
    assert not y[[0, 2]].isnan().any()


def test_gradients_of_any_order() -> None:
    x = torch.randn(2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: whvi.fwht(t, scale=0.3), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda t: whvi.fwht(t, scale=0.3) ** 3, (x,))
    third = torch.autograd.functional.jacobian(
        lambda a: torch.autograd.functional.hessian(lambda b: (whvi.fwht(b) ** 3).sum(), a, create_graph=True),
        x[0].detach(),
    )
    h = reference.hadamard(8)
    torch.testing.assert_close(third, 6 * torch.einsum("ni,nj,nk->ijk", h, h, h))


def test_forward_mode_without_requires_grad() -> None:
    x, tangent = torch.randn(2, 3, 8, dtype=torch.float64)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        result = torch.autograd.forward_ad.unpack_dual(whvi.fwht(dual)).tangent
    assert torch.equal(result, whvi.fwht(tangent))


def test_threads_of_python_do_not_disturb_each_other() -> None:
    inputs = [torch.randn(64, 2**k) for k in range(4, 12)]
    expected = [whvi.fwht(x) for x in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(30):
            if not torch.equal(whvi.fwht(inputs[index]), expected[index]):
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_autocast_keeps_the_dtype_of_the_input() -> None:
    x = torch.randn(4, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert whvi.fwht(x).dtype == torch.float32
        assert whvi.fwht(x @ x.T[:, :4].repeat(1, 2)).dtype == torch.bfloat16


def test_pad_appends_zeros() -> None:
    x = torch.randn(2, 5)
    padded: Tensor = whvi.pad(x)
    assert padded.shape == (2, 8)
    assert torch.equal(padded[:, :5], x)
    assert not padded[:, 5:].any()
    assert whvi.pad(padded) is padded
