"""The energy against the expression it stands for: values, derivatives, the exponential, and every way to call it."""

import math
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from whvi.errors import DtypeError, InputTypeError, ShapeError, WhviError
from whvi.ops import energy, fallback, native

BOTH = (torch.float32, torch.float64)
COEFFICIENTS = (0.7, -1.3, 0.4, 2.5)
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "short": [(512,), (512,)],
    "any shape": [(), (3, 5), (1,), (2, 3, 7), (33,)],
    "empty": [(0,), (2, 0)],
    "some empty": [(4, 0), (5,)],
    "in pieces": [(40_000,), (7,), (16_384,), (3, 16_385)],
}


def plain(means: list[Tensor], log_stds: list[Tensor], a: float, b: float, c: float, d: float = 0.0) -> Tensor:
    total = torch.zeros(())
    for m, s in zip(means, log_stds, strict=True):
        total = total + (a * m**2 + b * (2 * s).exp() + c * s + d).sum()
    return total


def pairs(shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(0)
    means, log_stds = ([torch.randn(s, dtype=dtype).requires_grad_() for s in shapes] for _ in range(2))
    return means, log_stds


def of_vectors(function: Callable[..., Tensor], *coefficients: float) -> Callable[..., Tensor]:
    """As a function of all means, then all log_stds."""

    def flat(*vectors: Tensor) -> Tensor:
        count = len(vectors) // 2
        return function(list(vectors[:count]), list(vectors[count:]), *coefficients)

    return flat


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_value_and_gradients_of_the_expression(shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    means, log_stds = pairs(shapes, dtype)
    wide = [[v.double() for v in vectors] for vectors in (means, log_stds)]
    got, expected = energy(means, log_stds, *COEFFICIENTS), plain(*wide, *COEFFICIENTS)
    assert got.shape == ()
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected.double(), rtol=1e-12 if dtype == torch.float64 else 1e-6, atol=0)
    vectors = [*means, *log_stds]
    unit = torch.finfo(dtype).eps
    for a, b in zip(*(torch.autograd.grad(-3 * y, vectors) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=4 * unit, atol=4 * unit)


def test_no_pairs_no_energy() -> None:
    assert torch.equal(energy([], [], *COEFFICIENTS), torch.zeros(()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    (m,), (s,) = pairs([(100,)], dtype)
    got, expected = energy([m], [s], *COEFFICIENTS), plain([m.double()], [s.double()], *COEFFICIENTS)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected.double(), rtol=4 * torch.finfo(dtype).eps, atol=1.0)
    for a, b in zip(*(torch.autograd.grad(y, (m, s)) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=8 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_one_gradient_alone(which: int) -> None:
    means, log_stds = pairs([(6,), (2, 3)])
    vectors = [v.detach() for v in (*means, *log_stds)]
    vectors[which].requires_grad_()
    got, expected = (
        torch.autograd.grad(of_vectors(f, *COEFFICIENTS)(*vectors), vectors[which])[0] for f in (energy, plain)
    )
    torch.testing.assert_close(got, expected)


def test_memory_layout_does_not_matter() -> None:
    base = torch.randn(4, 6, dtype=torch.float64)
    for m, s in ((base.T, base.T), (base[:, ::2], base[:, :3]), (base[:1].expand(3, 6), base[1:])):
        leaves = m.detach().requires_grad_(), s.detach().requires_grad_()
        got, expected = (f([leaves[0]], [leaves[1]], *COEFFICIENTS) for f in (energy, plain))
        torch.testing.assert_close(got.double(), expected.double())
        for a, b in zip(*(torch.autograd.grad(y, leaves) for y in (got, expected)), strict=True):
            torch.testing.assert_close(a, b)


def exponentials(s: Tensor) -> Tensor:
    """exp(2 l) as the kernel has it: the gradient of half its sum."""
    leaf = s.clone().requires_grad_()
    return torch.autograd.grad(energy([s], [leaf], 0.0, 0.5, 0.0), leaf)[0]


@pytest.mark.parametrize("name", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("dtype", BOTH)
def test_exponential_is_exact_to_two_units(dtype: torch.dtype, name: str) -> None:
    limit = 360.0 if dtype == torch.float64 else 45.0
    torch.manual_seed(0)
    everywhere = (torch.rand(20_003, dtype=torch.float64) * 2 - 1) * limit
    s = torch.cat([everywhere, torch.randn(10_000, dtype=torch.float64)]).to(dtype)
    best = native.instruction_set()
    if not native.use_instruction_set(name):
        pytest.skip(f"this machine cannot run {name}")
    try:
        got = exponentials(s)
        special = exponentials(torch.tensor([0.0, -1e30, 1e30, -math.inf, math.inf, math.nan] * 3, dtype=dtype))
    finally:
        native.use_instruction_set(str(best))
    exact = (2 * s.double()).exp()
    expected = exact.to(dtype)
    finite = expected.isfinite()
    assert torch.equal(got.isinf(), ~finite)
    unit = torch.nextafter(expected, torch.full_like(expected, math.inf)) - expected
    assert bool(((got.double() - exact).abs() <= 2 * unit.double())[finite].all())
    torch.testing.assert_close(
        special,
        torch.tensor([1.0, 0.0, math.inf, 0.0, math.inf, math.nan] * 3, dtype=dtype),
        equal_nan=True,
        rtol=0,
        atol=0,
    )


def test_sums_of_single_precision_are_accumulated_in_double() -> None:
    m = torch.full((1 << 20,), 0.1)
    got = energy([m], [torch.zeros_like(m)], 1.0, 0.0, 0.0)
    torch.testing.assert_close(got, m.double().square().sum().float(), rtol=3e-7, atol=0)


def test_threads_do_not_change_a_bit(threads: Callable[[int], None]) -> None:
    means, log_stds = pairs([(100_003,), (50,), (20_000,)], torch.float32)
    results = []
    for count in (1, 2, 3, 2):
        threads(count)
        y = energy(means, log_stds, *COEFFICIENTS)
        results.append([y, *torch.autograd.grad(y, [*means, *log_stds])])
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_it_is_one_step_of_autograd_that_keeps_its_inputs_only() -> None:
    (m,), (s,) = pairs([(5,)])
    kept = list[Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = energy([m], [s], *COEFFICIENTS)
    assert [t.data_ptr() for t in kept] == [m.data_ptr(), s.data_ptr()]
    assert {type(node).__name__ for node, _ in y.grad_fn.next_functions if node} == {"AccumulateGrad"}


def test_derivatives_of_every_order() -> None:
    means, log_stds = pairs([(3,), (2, 2)])
    vectors = (*means, *log_stds)
    function, twin = (of_vectors(f, *COEFFICIENTS) for f in (energy, plain))
    assert torch.autograd.gradcheck(function, vectors, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function, vectors, check_fwd_over_rev=True)
    third = []
    for f in (function, twin):
        y = f(*vectors).double() ** 2
        for _ in range(2):
            y = sum((g**2).sum() for g in torch.autograd.grad(y, vectors, create_graph=True))
        third.append(torch.autograd.grad(y, vectors))
    for a, b in zip(*third, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_forward_over_reverse_without_a_second_graph() -> None:
    (m,), (s,) = pairs([(5,)])
    results = []
    for f in (energy, plain):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(s, torch.ones_like(s))
            (d,) = torch.autograd.grad(f([m], [dual], *COEFFICIENTS), dual)
            results.append(forward_ad.unpack_dual(d).tangent)
    torch.testing.assert_close(*results)


def test_changed_inputs_are_noticed() -> None:
    (m,), (s,) = pairs([(5,)])
    y = energy([m], [s], *COEFFICIENTS)
    with torch.no_grad():
        s.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_torch_func() -> None:
    means, log_stds = pairs([(3,), (2, 2)])
    vectors = [v.detach() for v in (*means, *log_stds)]
    stacked = [torch.stack([v, 2 * v]) for v in vectors]
    function, twin = (of_vectors(f, *COEFFICIENTS) for f in (energy, plain))
    for transform in (
        lambda f: vmap(f),
        lambda f: vmap(grad(f, argnums=(0, 3))),
        lambda f: vmap(hessian(f, argnums=3)),
    ):
        for a, b in zip(
            *(torch.utils._pytree.tree_leaves(transform(f)(*stacked)) for f in (function, twin)), strict=True
        ):
            torch.testing.assert_close(a.double(), b.double())


@pytest.mark.parametrize(
    "shapes", [[(3,), (2, 2)], [(300, 500), (3,)], [(), (3,)], [()]], ids=["short", "long", "some numbers", "a number"]
)
def test_many_models_at_once(shapes: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    sizes = [(2, *shape) for shape in (*shapes, *shapes)]
    vectors = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    upstream = torch.tensor([0.5, -2.0], dtype=torch.float64)
    first, second = [], []
    for f in (energy, plain):
        y = vmap(of_vectors(f, *COEFFICIENTS))(*vectors)
        first.append((y, *torch.autograd.grad(y, vectors, upstream, retain_graph=True)))
        gradients = torch.autograd.grad(y, vectors, upstream, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in gradients), vectors))
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*second)


def test_vmap_without_an_axis_is_no_vmap() -> None:
    (m,), (s,) = pairs([(5,)])
    y = vmap(lambda _: energy([m], [s], *COEFFICIENTS))(torch.zeros(2))
    assert torch.equal(y, energy([m], [s], *COEFFICIENTS).expand(2))


def test_graphs() -> None:
    means, log_stds = pairs([(3,), (2, 2)])
    vectors = [*means, *log_stds]
    function = of_vectors(energy, *COEFFICIENTS)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        traced = make_fx(function)(*(v.detach() for v in vectors))
        expected = function(*vectors)
        for other in (compiled, traced):
            got = other(*vectors)
            torch.testing.assert_close(got, expected)
            for a, b in zip(
                *(torch.autograd.grad(y, vectors, retain_graph=True) for y in (got, expected)), strict=True
            ):
                torch.testing.assert_close(a, b)


def test_operators_agree_with_the_fallback() -> None:
    means, log_stds = ([v.detach() for v in vectors] for vectors in pairs([(3,), (2, 2), (0,)]))
    arguments = (means, log_stds, *COEFFICIENTS)
    torch.testing.assert_close(torch.ops.whvi.energy(*arguments), fallback.energy(*arguments))
    upstream = torch.tensor(-0.3, dtype=torch.float64)
    operators = (torch.ops.whvi.energy_backward, fallback.energy_backward)
    for a, b in zip(*(f(upstream, *arguments) for f in operators), strict=True):
        torch.testing.assert_close(a, b)
    utilities = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.whvi.energy.default, arguments, test_utils=utilities)
    torch.library.opcheck(torch.ops.whvi.energy_backward.default, (upstream, *arguments), test_utils=utilities)


WRONG: dict[str, tuple[list[object], list[object], type[WhviError], str]] = {
    "lengths": ([torch.zeros(2)], [], ShapeError, "1 means, but 0 log_stds"),
    "no means": ([], [torch.zeros(2)], ShapeError, "0 means, but 1 log_stds"),
    "shapes": ([torch.zeros(2)], [torch.zeros(3)], ShapeError, r"means\[0\] has shape \(2,\)"),
    "axes": ([torch.zeros(2, 3)], [torch.zeros(6)], ShapeError, r"log_stds\[0\] has \(6,\)"),
    "dtype in a pair": (
        [torch.zeros(2)],
        [torch.zeros(2).double()],
        DtypeError,
        r"log_stds\[0\] has dtype torch.float64",
    ),
    "dtype of pairs": ([torch.zeros(2), torch.zeros(2).half()], [torch.zeros(2)] * 2, DtypeError, r"means\[1\]"),
    "integers": ([torch.ones(2).long()], [torch.ones(2).long()], DtypeError, "torch.int64"),
    "no tensor": ([[1.0]], [[1.0]], InputTypeError, r"means\[0\] must be a torch.Tensor, got list"),
    "a late list": ([torch.zeros(1)] * 2, [torch.zeros(1), [1.0]], InputTypeError, r"log_stds\[1\] must be"),
}


@pytest.mark.parametrize(("means", "log_stds", "error", "words"), WRONG.values(), ids=WRONG)
def test_errors(means: list[Tensor], log_stds: list[Tensor], error: type[WhviError], words: str) -> None:
    with pytest.raises(error, match=words):
        energy(means, log_stds, *COEFFICIENTS)
    with forward_ad.dual_level(), pytest.raises(error, match=words):  # where the torch expression runs
        energy(means, log_stds, *COEFFICIENTS)
