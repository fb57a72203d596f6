"""The pieces that KL divergences are made of."""

import torch

from whvi.posterior import kl


def test_the_square_of_a_tensor_has_its_derivatives() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(kl.square(x), x.pow(2).sum(), rtol=1e-14, atol=0.0)
    assert torch.autograd.gradcheck(kl.square, x)
    assert torch.autograd.gradgradcheck(kl.square, x)
    zero = torch.zeros(2, dtype=torch.float64)  # where a norm would have no second derivative
    torch.testing.assert_close(torch.autograd.functional.hessian(kl.square, zero), 2 * torch.eye(2).double())


def test_the_square_of_a_tensor_under_transforms() -> None:
    x = torch.randn(5, 3)
    torch.testing.assert_close(torch.vmap(torch.func.grad(kl.square))(x), 2 * x)
    torch.testing.assert_close(torch.func.hessian(kl.square)(x[0]), 2 * torch.eye(3))
