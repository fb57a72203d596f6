"""The KL of many diagonal Gaussians in few operations, against torch.distributions."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence
from torch.func import grad, hessian, vmap

from whvi.ops import moments
from whvi.posterior.kl import diagonals

SHAPES = ((4,), (2, 3), (1,))
VARIANCE = 0.7


@pytest.fixture(autouse=True, params=["short", "long"])
def _length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short vectors are joined, long ones are a step of autograd each."""
    if request.param == "long":
        monkeypatch.setattr(moments, "_SHORT", 0)


def vectors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in SHAPES * 2]


def ours(*vectors: Tensor) -> Tensor:
    return diagonals(vectors[:3], vectors[3:], VARIANCE)


def plain(*vectors: Tensor) -> Tensor:
    prior = Normal(torch.zeros((), dtype=vectors[0].dtype), VARIANCE**0.5)
    pairs = zip(vectors[:3], vectors[3:], strict=True)
    return torch.stack([kl_divergence(Normal(m, s.exp()), prior).sum() for m, s in pairs]).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradients(dtype: torch.dtype) -> None:
    operands = vectors(dtype)
    got, expected = ours(*operands), plain(*operands)
    torch.testing.assert_close(got, expected)
    for a, b in zip(*(torch.autograd.grad(-3 * y, operands) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b)


def test_derivatives_of_any_order() -> None:
    operands = vectors()
    assert torch.autograd.gradcheck(ours, operands)
    assert torch.autograd.gradgradcheck(ours, operands)
    mean, log_std = operands[0].detach(), operands[3].detach()
    by_ours, by_plain = (
        hessian(lambda m, s, f=f: f(m, *operands[1:3], s, *operands[4:]), argnums=(0, 1))(mean, log_std)
        for f in (ours, plain)
    )
    for row, expected_row in zip(by_ours, by_plain, strict=True):
        for a, b in zip(row, expected_row, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("which", range(6))
def test_one_gradient_alone(which: int) -> None:
    operands = [v.detach() for v in vectors()]
    operands[which].requires_grad_()
    got, expected = (torch.autograd.grad(f(*operands), operands[which])[0] for f in (ours, plain))
    torch.testing.assert_close(got, expected)


def test_many_models_at_once() -> None:
    stacked = [torch.stack([v.detach(), 2 * v.detach()]) for v in vectors()]
    gradients = vmap(grad(lambda *v: ours(*v), argnums=3))(*stacked)
    for r in range(2):
        one = [v[r].clone().requires_grad_() for v in stacked]
        torch.testing.assert_close(gradients[r], torch.autograd.grad(plain(*one), one[3])[0])
