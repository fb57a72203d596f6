"""The noisy bias against the expression it stands for: values, gradients, and every way to call it."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from whvi.ops import draw_seed, fallback, native, noisy_bias, normal
from whvi.testing import cover_pairs

SHAPES = [(64, 512), (3,), (1,), (5, 1), (2, 3, 7), (300, 70), (3, 3000), (40, 1000), (0, 5), (2, 0, 3)]
BOTH = (torch.float32, torch.float64)


def plain(y: Tensor, mean: Tensor, log_std: Tensor, seed: int | Tensor, offset: int = 0) -> Tensor:
    return y + mean + log_std.exp() * normal(seed, offset, y.shape, dtype=log_std.dtype)


def arguments(*shape: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """y, mean and log_std with gradients."""
    shapes = (shape, shape[-1:], shape[-1:])
    return [torch.randn(s, dtype=dtype).mul_(0.5).requires_grad_() for s in shapes]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(("shape", "offset", "dtype"), cover_pairs(SHAPES, (0, 13), BOTH), ids=str)
def test_bits_and_gradients_of_the_expression(shape: tuple[int, ...], offset: int, dtype: torch.dtype) -> None:
    inputs = arguments(*shape, dtype=dtype)
    got, expected = (f(*inputs, 5, offset) for f in (noisy_bias, plain))
    assert torch.equal(got, expected)
    dy = torch.randn(shape, dtype=dtype)
    unit = torch.finfo(dtype).eps
    for a, b in zip(*(torch.autograd.grad(y, inputs, dy) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=32 * unit, atol=32 * unit * (1 + dy.numel()) ** 0.5)


@pytest.mark.parametrize(
    ("shape", "dtype", "own"),
    cover_pairs([(33, 100), (4, 3), (2,)], [torch.bfloat16, torch.float16], [False, True]),
    ids=str,
)
def test_half_precision_is_computed_in_single(shape: tuple[int, ...], dtype: torch.dtype, own: bool) -> None:
    y, mean, log_std = (t.detach() for t in arguments(*shape, dtype=torch.float32))
    y = y.to(dtype)
    if own:
        mean, log_std = mean.to(dtype), log_std.to(dtype)
    leaves = [t.requires_grad_() for t in (y, mean, log_std)]
    expected = plain(y.float(), mean.float(), log_std.float(), 5).to(dtype)
    got = noisy_bias(y, mean, log_std, 5)
    assert got.dtype == dtype
    assert torch.equal(got, expected)
    dy = torch.randn(shape).to(dtype)
    for a, b in zip(*(torch.autograd.grad(z, leaves, dy) for z in (got, expected)), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(
            a, b, rtol=1e-5 if a.dtype == torch.float32 else 2 * torch.finfo(dtype).eps, atol=1e-4
        )


@pytest.mark.parametrize("name", ["y", "mean", "log_std"])
def test_one_gradient_alone(name: str) -> None:
    inputs: dict[str, Any] = dict(zip(("y", "mean", "log_std"), (t.detach() for t in arguments(20, 33)), strict=True))
    inputs[name].requires_grad_()
    dy = torch.randn(20, 33, dtype=torch.float64)
    got, expected = (torch.autograd.grad(f(**inputs, seed=5), inputs[name], dy)[0] for f in (noisy_bias, plain))
    torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


def test_memory_layout_does_not_matter() -> None:
    _, mean, log_std = arguments(6)
    base = torch.randn(6, 4, 10, dtype=torch.float64)
    wide = torch.randn(12, dtype=torch.float64)
    for y in (base.movedim(0, 2), base[:, :, ::2].movedim(0, -1), base[:, 0, :1].T.expand(7, 6)):
        for m in (mean, wide[::2]):
            leaf = y.detach().requires_grad_()
            got, expected = noisy_bias(leaf, m, log_std, 5), plain(leaf, m, log_std, 5)
            assert got.is_contiguous()
            assert torch.equal(got, expected)
            # the upstream gradient of a sum is a single number, expanded
            for a, b in zip(*(torch.autograd.grad(t.sum(), (leaf, log_std)) for t in (got, expected)), strict=True):
                torch.testing.assert_close(a, b)


def test_derivatives_of_every_order() -> None:
    inputs = arguments(3, 5)
    torch.autograd.gradcheck(lambda *a: noisy_bias(*a, 5), inputs, check_forward_ad=True, check_batched_grad=True)
    torch.autograd.gradgradcheck(lambda *a: noisy_bias(*a, 5), inputs, check_fwd_over_rev=True)
    third = []
    for f in (noisy_bias, plain):
        y = (f(*inputs, 5) ** 3).sum()
        for _ in range(3):
            y = torch.stack([(g**2).sum() for g in torch.autograd.grad(y, inputs, create_graph=True)]).sum()
        third.append(torch.autograd.grad(y, inputs))
    for a, b in zip(*third, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_forward_over_reverse_without_a_second_graph() -> None:
    (y, mean, log_std), tangent = arguments(3, 5), torch.randn(5, dtype=torch.float64)
    results = []
    for f in (noisy_bias, plain):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(log_std, tangent)
            (d,) = torch.autograd.grad(f(y, mean, dual, 5).sum(), dual)
            results.append(forward_ad.unpack_dual(d).tangent)
    torch.testing.assert_close(*results)


def test_noise_is_not_stored() -> None:
    inputs, sizes = arguments(50, 20), list[int]()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        noisy_bias(*inputs, 5)
    assert sorted(sizes) == [1, 20]  # seed and log_std


def test_threads_do_not_change_a_bit(threads: Callable[[int], None]) -> None:
    inputs, dy = arguments(500, 300, dtype=torch.float32), torch.randn(500, 300)
    results = []
    for count in (1, 2, 3, 2):
        threads(count)
        y = noisy_bias(*inputs, 5)
        results.append([y, *torch.autograd.grad(y, inputs, dy)])
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", ["avx512", "avx2", "generic"])
def test_instruction_sets(name: str) -> None:
    best = native.instruction_set()
    if not native.use_instruction_set(name):
        pytest.skip(f"this machine cannot run {name}")
    try:
        test_bits_and_gradients_of_the_expression((37, 45), 13, torch.float32)
        test_half_precision_is_computed_in_single((33, 100), torch.float16, own=False)
    finally:
        native.use_instruction_set(str(best))


@pytest.mark.parametrize(
    ("groups", "rows", "dtype"),
    cover_pairs([(), (3,), (2, 3)], [(), (5,), (5, 2), (0,)], [*BOTH, torch.bfloat16]),
    ids=str,
)
def test_fallback_agrees(groups: tuple[int, ...], rows: tuple[int, ...], dtype: torch.dtype) -> None:
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    y, dy = (torch.randn(*groups, *rows, 9).to(dtype) for _ in range(2))
    mean, log_std = (torch.randn(*groups, 9, dtype=compute) for _ in range(2))
    seed = torch.randint(2**60, groups)
    assert torch.equal(
        torch.ops.whvi.noisy_bias(y, mean, log_std, seed, 7), fallback.noisy_bias(y, mean, log_std, seed, 7)
    )
    for needs in (1, 2, 3):
        operators = (torch.ops.whvi.noisy_bias_backward, fallback.noisy_bias_backward)
        for a, b in zip(*(f(dy, log_std, seed, 7, needs) for f in operators), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [(), (3,)], ids=["one", "three groups"])
def test_opcheck(groups: tuple[int, ...]) -> None:
    y, dy = (torch.randn(*groups, 4, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mean, log_std = (torch.randn(*groups, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    seed = torch.randint(2**60, groups)
    torch.library.opcheck(torch.ops.whvi.noisy_bias.default, (y, mean, log_std, seed, 3))
    for needs in (1, 2, 3):
        torch.library.opcheck(torch.ops.whvi.noisy_bias_backward.default, (dy, log_std, seed, 3, needs))
    low = (y.detach().bfloat16(), mean.detach().float(), log_std.detach().float(), seed, 3)
    torch.library.opcheck(torch.ops.whvi.noisy_bias.default, low, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("shared", [None, 0, 1, 2, 3], ids=["all stacked", "one y", "one mean", "one std", "one seed"])
def test_vmap_equals_loop(shared: int | None) -> None:
    replicas = 4
    shapes = [(2, 3, 5), (5,), (5,)]
    stacked = [torch.randn(replicas, *s, dtype=torch.float64) for s in shapes]
    tensors = [*stacked, torch.arange(100, 100 + replicas)]
    dims = tuple(None if i == shared else 0 for i in range(4))
    if shared is not None:
        tensors[shared] = tensors[shared][0]

    def loss(*a: Tensor) -> Tensor:
        return (noisy_bias(*a, 3) ** 2).sum()

    raw = vmap(lambda *a: torch.ops.whvi.noisy_bias(*a, 3), in_dims=dims)(*tensors)
    values = vmap(lambda *a: noisy_bias(*a, 3), in_dims=dims)(*tensors)
    gradients = vmap(grad(loss, argnums=(0, 1, 2)), in_dims=dims)(*tensors)
    outside = grad(lambda *a: vmap(loss, in_dims=dims)(*a, tensors[3]).sum(), argnums=(0, 1, 2))(*tensors[:3])
    for r in range(replicas):
        alone = [t if d is None else t[r] for t, d in zip(tensors, dims, strict=True)]
        expected = plain(*alone, 3)
        assert torch.equal(values[r], expected)
        assert torch.equal(raw[r], expected)
        twin = grad(lambda *a, s=alone[3]: (plain(*a, s, 3) ** 2).sum(), argnums=(0, 1, 2))(*alone[:3])
        for i, b in enumerate(twin):
            torch.testing.assert_close(gradients[i][r], b)
            if i != shared:
                torch.testing.assert_close(outside[i][r], b)


def test_raw_backward_under_vmap() -> None:
    dy, log_std = torch.randn(3, 4, 5), torch.randn(5)

    def operator(d: Tensor) -> Tensor:
        return torch.ops.whvi.noisy_bias_backward(d, log_std, torch.tensor(2), 0, 2)[1]

    torch.testing.assert_close(vmap(operator)(dy), torch.stack([operator(d) for d in dy]))


def test_jacobians_of_torch_func() -> None:
    inputs = [t.detach() for t in arguments(2, 3)]
    for transform in (jacrev, jacfwd, hessian):
        results = [
            transform(lambda *a, f=f: f(*a, torch.tensor(5)) ** 3, argnums=(0, 1, 2))(*inputs)
            for f in (noisy_bias, plain)
        ]
        for a, b in zip(*(torch.utils._pytree.tree_leaves(r) for r in results), strict=True):
            torch.testing.assert_close(a, b)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean, self.log_std = nn.Parameter(torch.randn(10)), nn.Parameter(torch.randn(10))

    def forward(self, x: Tensor) -> Tensor:
        return noisy_bias(x * 2, self.mean, self.log_std, draw_seed()).tanh()


def outcome(model: Callable[[Tensor], Tensor], parameters: Callable[[], Iterator[Tensor]], x: Tensor) -> list[Tensor]:
    torch.manual_seed(1)
    y = model(x)
    return [y, *torch.autograd.grad(y.square().sum(), (x, *parameters()))]


def assert_same_outcome(model: nn.Module, other: Callable[[Tensor], Tensor], x: Tensor) -> None:
    expected = outcome(model, model.parameters, x)
    parameters = other.parameters if isinstance(other, nn.Module) else model.parameters
    for a, b in zip(outcome(other, parameters, x), expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend: str, dynamic: bool) -> None:
    if backend == "inductor" and shutil.which("c++") is None:
        pytest.skip("torch.compile's default backend needs a C++ compiler")
    torch._dynamo.reset()
    model = Model()
    compiled = torch.compile(model.forward, fullgraph=True, dynamic=dynamic, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        for x in (torch.randn(6, 10), torch.randn(10, 9).T):
            assert_same_outcome(model, compiled, x.requires_grad_())


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    model, dynamic = Model(), {"x": {0: torch.export.Dim("b")}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own deprecations
        program = torch.export.export(model, (torch.randn(6, 10),), dynamic_shapes=dynamic, strict=strict)
        assert_same_outcome(model, program.module(), torch.randn(9, 10, requires_grad=True))


def test_make_fx() -> None:
    inputs = arguments(3, 5)
    traced = make_fx(lambda *a: noisy_bias(*a, 5))(*(t.detach() for t in inputs))
    assert torch.ops.whvi.noisy_bias.default in {node.target for node in traced.graph.nodes}
    torch.autograd.gradcheck(traced, inputs)
    assert torch.equal(traced(*inputs), plain(*inputs, 5))
