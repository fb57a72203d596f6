"""The operators under torch.library's own checks, torch.func, torch.compile and torch.export."""

import shutil
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from whvi.ops import chain, draw_seed, fwht, layout, noisy_chain, normal

D = 8


def rand(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def chain_arguments(noisy: bool) -> tuple[object, ...]:
    plan = layout.plan([(2, 3, 1), (2, 1, 4), (2, 1, 1), None, (2, 1, 4), (2, 3, 1)], stack=True)
    tensors = [t.requires_grad_() for t in (rand(2, 3, 1, D), rand(2, 1, 4, D), rand(2, 1, 1, D), rand(2, 1, 4, D))]
    x, s1, g, std = tensors
    noise = (std, torch.tensor([3, 4])) if noisy else (None, None)
    return x, s1, g, None, *noise, 7, list(plan.lead), *plan[1:7], 0.1


quiet_opcheck = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
"""torch 2.15 reads the gradients of intermediate tensors in its own checks of operators."""


@quiet_opcheck
@pytest.mark.parametrize("noisy", [False, True])
def test_opcheck_chain(noisy: bool) -> None:
    arguments = chain_arguments(noisy)
    torch.library.opcheck(torch.ops.whvi.chain.default, arguments)
    low = [
        a.detach().to(torch.bfloat16 if i == 0 else torch.float32)
        if isinstance(a, Tensor) and a.is_floating_point()
        else a
        for i, a in enumerate(arguments)
    ]
    unused = ("test_schema", "test_faketensor")
    torch.library.opcheck(
        torch.ops.whvi.chain_backward.default, (rand(2, 3, 4, D).bfloat16(), *low, 0b00010), test_utils=unused
    )
    dy = rand(2, 3, 4, D).requires_grad_()
    torch.library.opcheck(torch.ops.whvi.chain_backward.default, (dy, *arguments, 0b11111 if noisy else 0b00111))


@quiet_opcheck
def test_opcheck_transform_and_normal() -> None:
    torch.library.opcheck(torch.ops.whvi.fwht.default, (rand(3, D).requires_grad_(), 0.5))
    without_autograd = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.whvi.fwht_out.default, (rand(3, D), 0.5, rand(3, D)), test_utils=without_autograd)
    torch.library.opcheck(torch.ops.whvi.normal.default, (torch.tensor([3, 4]), 5, 100), test_utils=without_autograd)


def test_vmap_equals_loop_for_the_transform() -> None:
    x = rand(4, 5, D)
    assert torch.equal(vmap(fwht)(x), fwht(x))
    assert torch.equal(vmap(fwht, in_dims=2, out_dims=1)(x.movedim(0, 2)), fwht(x).movedim(0, 1))
    assert torch.equal(vmap(torch.ops.whvi.fwht, in_dims=(0, None))(x, 2.0), fwht(x, scale=2.0))

    def cube(t: Tensor) -> Tensor:
        return (fwht(t) ** 3).sum()

    torch.testing.assert_close(vmap(grad(cube))(x), torch.stack([grad(cube)(t) for t in x]))
    torch.testing.assert_close(grad(lambda t: vmap(cube)(t).sum())(x), grad(cube)(x))


Stack = tuple[Tensor, ...]
SHAPES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "blocks": (lambda x, s, g: chain(x[:, None], s, g, s), ((5, D), (3, D), (D,))),
    "noise": (
        lambda x, s, g, seed: noisy_chain(x[:, None], s, g, g, s, seed, noise_shape=(5, 1)),
        ((5, D), (3, D), (D,)),
    ),
    "mixed axes": (
        lambda x, s, g: chain(x[:, None, :, None], s[:, None, None, None], g[:, None, None], None),
        ((2, 3, D), (2, D), (5, D)),
    ),
}


@pytest.mark.parametrize(("function", "shapes"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("shared", [None, 0, 1, 2], ids=["all batched", "x shared", "s shared", "g shared"])
def test_vmap_of_gradients_equals_loop(
    function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], shared: int | None
) -> None:
    replicas = 4
    tensors = [rand(*shape) if i == shared else rand(replicas, *shape) for i, shape in enumerate(shapes)]
    dims: list[int | None] = [None if i == shared else 0 for i in range(3)]
    if function.__code__.co_argcount == 4:
        tensors.append(torch.arange(100, 100 + replicas))
        dims.append(0)
    loss = grad(lambda *a: (function(*a) ** 2).sum(), argnums=(0, 1, 2))
    batched = vmap(loss, in_dims=tuple(dims))(*tensors)
    for r in range(replicas):
        alone = loss(*(t if d is None else t[r] for t, d in zip(tensors, dims, strict=True)))
        for a, b in zip(batched, alone, strict=True):
            torch.testing.assert_close(a[r], b)


def test_raw_operators_under_vmap() -> None:
    """An exported graph holds the operators themselves."""
    arguments = [a.detach() if isinstance(a, Tensor) else a for a in chain_arguments(noisy=True)]
    x = rand(3, 2, 3, 1, D)
    stacked = vmap(lambda t: torch.ops.whvi.chain(t, *arguments[1:]))(x)
    torch.testing.assert_close(stacked, torch.stack([torch.ops.whvi.chain(t, *arguments[1:]) for t in x]))
    dy = rand(3, 2, 3, 4, D)
    stacked = vmap(lambda t: torch.ops.whvi.chain_backward(t, *arguments, 1)[0])(dy)
    torch.testing.assert_close(stacked, torch.stack([torch.ops.whvi.chain_backward(t, *arguments, 1)[0] for t in dy]))


def test_vmap_randomness() -> None:
    x, p = rand(1, D).expand(4, 1, D), rand(D)

    def draw(t: Tensor) -> Tensor:
        return noisy_chain(t, None, p, p, None, draw_seed())

    different = vmap(draw, randomness="different")(x)
    same = vmap(draw, randomness="same")(x)
    assert len({tuple(row.tolist()) for row in different.flatten(1)}) == 4
    assert len({tuple(row.tolist()) for row in same.flatten(1)}) == 1
    seeds = torch.tensor([5, 6])
    assert torch.equal(vmap(lambda s: normal(s, 3, (7,)))(seeds), torch.stack([normal(int(s), 3, (7,)) for s in seeds]))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p = nn.ParameterList([nn.Parameter(torch.randn(16)) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        s1, g, log_std, s2 = self.p
        y = chain(fwht(x), s1, g, s2)
        return noisy_chain(y, s1, g, log_std, s2, draw_seed())


def outcome(model: Callable[[Tensor], Tensor], parameters: nn.ParameterList, x: Tensor) -> list[Tensor]:
    torch.manual_seed(1)
    y = model(x)
    return [y, *torch.autograd.grad(y.square().sum(), list(parameters))]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_equals_eager(dynamic: bool) -> None:
    torch._dynamo.reset()
    model = Model()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for batch in (6, 9):
        x = torch.randn(batch, 16)
        for a, b in zip(outcome(compiled, model.p, x), outcome(model, model.p, x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_compiled_vmap_equals_eager() -> None:
    torch._dynamo.reset()
    x, p = rand(4, 3, D), rand(4, D).requires_grad_()
    replicas = vmap(lambda a, b: chain(fwht(a), b, b, None))
    compiled = torch.compile(replicas, fullgraph=True, backend="aot_eager")(x, p)
    torch.testing.assert_close(compiled, replicas(x, p))
    gradients = (torch.autograd.grad(y.square().sum(), p)[0] for y in (compiled, replicas(x, p)))
    torch.testing.assert_close(*gradients)


def test_compiled_functional_gradient_is_refused_not_wrong() -> None:
    torch._dynamo.reset()
    function = grad(lambda x: (chain(fwht(x), None, x[0], None) ** 2).sum())
    x = rand(3, D)
    try:
        found = torch.compile(function, backend="aot_eager")(x)
    except Exception as refusal:  # before torch 2.15, and dynamo wraps the error in one of its own
        if "not differentiated by torch.func" not in str(refusal):
            raise
    else:
        torch.testing.assert_close(found, function(x))


def test_other_tracers_keep_gradients() -> None:
    def function(x: Tensor) -> Tensor:
        return chain(fwht(x), None, x[0], None) * 2.0

    x = rand(3, D).requires_grad_()
    traced = make_fx(function)(rand(3, D))
    torch.testing.assert_close(traced(x), function(x))
    gradients = (torch.autograd.grad(f(x).square().sum(), x)[0] for f in (traced, function))
    torch.testing.assert_close(*gradients)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and warns about Python branches
        scripted = torch.jit.trace(fwht, rand(3, D), check_trace=False)
    assert scripted(x).requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_forward_mode_of_a_compiled_graph(backend: str) -> None:
    torch._dynamo.reset()
    x, t, g = rand(2, D), rand(2, D), rand(D)
    compiled = torch.compile(lambda a: chain(fwht(a), None, g, None) * 1, backend=backend)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        tangent = torch.autograd.forward_ad.unpack_dual(compiled(dual)).tangent
        torch.testing.assert_close(tangent, chain(fwht(t), None, g, None))


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile's default backend needs a C++ compiler")
def test_default_backend_of_compile_on_transposed_input() -> None:
    """Inductor checks the strides that the fake kernels promise."""
    torch._dynamo.reset()

    def function(x: Tensor, g: Tensor) -> Tensor:
        return chain(x * 2, None, g, None).tanh()

    g = rand(16, dtype=torch.float32).requires_grad_()
    x = rand(16, 6, dtype=torch.float32).T.clone(memory_format=torch.preserve_format).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        got = torch.autograd.grad(torch.compile(function, fullgraph=True)(x, g).sum(), (x, g))
    for a, b in zip(got, torch.autograd.grad(function(x, g).sum(), (x, g)), strict=True):
        torch.testing.assert_close(a, b)


def test_jvp_of_torch_func() -> None:
    x, t, g = rand(3, D), rand(3, D), rand(D)
    tangent = torch.func.jvp(lambda a: chain(fwht(a), None, g, None), (x,), (t,))[1]
    torch.testing.assert_close(tangent, chain(fwht(t), None, g, None))


@pytest.mark.parametrize("strict", [False, True])
def test_export_keeps_values_and_gradients(strict: bool) -> None:
    model = Model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own deprecations
        program = torch.export.export(
            model, (torch.randn(6, 16),), dynamic_shapes={"x": {0: torch.export.Dim("b")}}, strict=strict
        )
        exported = program.module()
    x = torch.randn(9, 16)
    parameters = nn.ParameterList([dict(exported.named_parameters())[f"p.{i}"] for i in range(4)])
    for a, b in zip(outcome(exported, parameters, x), outcome(model, model.p, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_autocast() -> None:
    model = Model()
    x = torch.randn(5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x @ torch.eye(16))
    assert y.dtype == torch.bfloat16
    assert all(g.dtype == torch.float32 for g in torch.autograd.grad(y.float().sum(), list(model.p)))
