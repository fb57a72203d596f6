"""A mean-field layer in one step of autograd is the expression it stands for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from whvi.ops import normal
from whvi.ops.local import local_linear

IN, OUT, REPLICAS = 4, 3, 2
SEEDS = torch.tensor([11, 5])


def plain(x: Tensor, *rest: Tensor) -> Tensor:
    mean, log_std, bias_mean, bias_log_std, seed = rest
    shape = (*x.shape[:-1], OUT)
    eps, bias_eps = (normal(seed, offset, shape, dtype=x.dtype) for offset in (3, 1 << 40))
    spread = (x.square() @ log_std.exp().square().mT).sqrt()
    return x @ mean.mT + spread * eps + bias_mean + bias_log_std.exp() * bias_eps


def local(x: Tensor, *rest: Tensor) -> Tensor:
    return local_linear(x, *rest, 3, 1 << 40)


def leaves(lead: tuple[int, ...], replicas: bool | int = False, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    front = () if replicas is False else (REPLICAS if replicas is True else replicas,)
    shapes = [(*lead, IN), (OUT, IN), (OUT, IN), (OUT,), (OUT,)]
    return [torch.randn(*front, *shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("replicas", [False, True])
@pytest.mark.parametrize("lead", [(5,), (2, 5), (0,)])
def test_value_and_gradients(lead: tuple[int, ...], replicas: bool) -> None:
    operands = leaves(lead, replicas)
    seed = SEEDS if replicas else SEEDS[0]
    functions: list[Callable[..., Tensor]] = [torch.func.vmap(f) if replicas else f for f in (local, plain)]
    found, wanted = (f(*operands, seed) for f in functions)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    grad = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad(y, operands, grad) for y in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_replicas_may_share_operands() -> None:
    one, many = leaves((5,)), leaves((5,), replicas=True)
    for shared in range(5):
        operands = [one[i] if i == shared else many[i] for i in range(5)]
        dims = (*(None if i == shared else 0 for i in range(5)), 0)
        found, wanted = (torch.func.vmap(f, in_dims=dims)(*operands, SEEDS) for f in (local, plain))
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), operands) for y in (found, wanted)), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("replicas", [False, True])
def test_derivatives_of_higher_order(replicas: bool) -> None:
    operands = leaves((2,), replicas)
    seed = SEEDS if replicas else SEEDS[0]
    function = torch.func.vmap(local) if replicas else local
    assert torch.autograd.gradcheck(lambda *o: function(*o, seed), operands)
    assert torch.autograd.gradgradcheck(lambda *o: function(*o, seed), operands)


def test_other_transforms() -> None:
    operands = leaves((2,))
    found, wanted = (
        torch.func.grad(lambda *o, f=f: f(*o, SEEDS[0]).square().sum(), argnums=(0, 2))(*operands)
        for f in (local, plain)
    )
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("frozen", range(5))
def test_gradients_only_where_they_are_wanted(frozen: int) -> None:
    operands = leaves((5,))
    operands[frozen].requires_grad_(False)
    rest = [operand for i, operand in enumerate(operands) if i != frozen]
    found, wanted = (torch.autograd.grad(f(*operands, SEEDS[0]).square().sum(), rest) for f in (local, plain))
    torch.testing.assert_close(found, wanted)


def test_a_row_of_zeros_has_finite_gradients() -> None:
    _, *laws = leaves((5,), dtype=torch.float32)
    x = torch.zeros(5, IN, requires_grad=True)
    gradients = torch.autograd.grad(local(x, *laws, SEEDS[0]).sum(), (x, *laws))
    assert all(gradient.isfinite().all() for gradient in gradients)
    torch.testing.assert_close(gradients[0], laws[0].sum(0).expand(5, IN))
    assert not gradients[2].any()


def test_vmap_without_an_axis_is_no_vmap() -> None:
    operands = leaves((5,))
    alone = local(*operands, SEEDS[0])
    assert torch.equal(torch.func.vmap(lambda _: local(*operands, SEEDS[0]))(torch.zeros(2)), alone.expand(2, -1, -1))


@pytest.mark.parametrize("replicas", [False, True])
def test_autocast_does_not_reach_it(replicas: bool) -> None:
    operands = leaves((5,), replicas, torch.float32)
    seed = SEEDS if replicas else SEEDS[0]
    function = torch.func.vmap(local) if replicas else local
    with torch.autocast("cpu", torch.bfloat16):
        found = function(*operands, seed)
    assert torch.equal(found, function(*operands, seed))


def test_no_replicas_at_all() -> None:
    operands = leaves((5,), replicas=0)
    y = torch.func.vmap(local)(*operands, SEEDS[:0])
    assert y.shape == (0, 5, OUT)
    for create_graph in (False, True):
        gradients = torch.autograd.grad(y.sum(), operands, create_graph=create_graph, retain_graph=True)
        assert [gradient.shape for gradient in gradients] == [operand.shape for operand in operands]
