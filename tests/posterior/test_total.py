"""The sum of many KL divergences is the sum, whichever way it is computed."""

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.posterior import DiagonalGaussian, FullGaussian, GaussianPrior, Point, each_kl, total_kl
from whvi.posterior import kl as formulas


def randomised(posterior: nn.Module) -> nn.Module:
    for parameter in posterior.parameters():
        nn.init.normal_(parameter)
    return posterior


@pytest.fixture
def pairs() -> dict[nn.Module, GaussianPrior | Tensor]:
    torch.manual_seed(0)
    half, learned = GaussianPrior(0.5), GaussianPrior(2.0, learned=True).double()
    zero = torch.zeros(3, 4, dtype=torch.float64)
    return {
        randomised(DiagonalGaussian(zero)): GaussianPrior(1.0),
        randomised(DiagonalGaussian(zero[0])): GaussianPrior(1.0),
        randomised(DiagonalGaussian(zero[:, 0])): half,
        randomised(DiagonalGaussian(zero[0])): learned,
        randomised(FullGaussian(zero)): half,
        randomised(Point(zero)): GaussianPrior(1.0),
        nn.Identity(): torch.tensor(1.5, dtype=torch.float64),
    }


def parameters(pairs: dict[nn.Module, GaussianPrior | Tensor]) -> list[Tensor]:
    return [p for module in pairs if not isinstance(module, Point) for p in module.parameters()]


def test_total_is_the_sum_in_value_and_gradients(pairs: dict[nn.Module, GaussianPrior | Tensor]) -> None:
    total, expected = total_kl(pairs), sum(each_kl(pairs).values())
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=0)
    leaves = parameters(pairs)
    for a, b in zip(torch.autograd.grad(3 * total, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def test_diagonals_have_all_derivatives() -> None:
    torch.manual_seed(0)
    shapes = [(2, 3), (4,), (1,)]
    vectors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes * 2]

    def summed(*inputs: Tensor) -> Tensor:
        return formulas.diagonals(inputs[:3], inputs[3:], 0.7)

    assert torch.autograd.gradcheck(summed, vectors, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(summed, vectors)
    stacked = [torch.stack([v, 2 * v]).detach() for v in vectors]
    batched = torch.vmap(torch.func.grad(summed, argnums=tuple(range(6))))(*stacked)
    for found, vector in zip(batched, vectors, strict=True):
        alone = torch.autograd.grad(summed(*vectors), vector)[0]
        torch.testing.assert_close(found[0], alone)


def test_precisions_may_differ() -> None:
    torch.manual_seed(0)
    dtypes = (torch.float64, torch.float32, torch.bfloat16)
    pairs = {randomised(DiagonalGaussian(torch.zeros(5, dtype=dtype))): GaussianPrior(0.5) for dtype in dtypes}
    total = total_kl(pairs)
    torch.testing.assert_close(total, sum(each_kl(pairs).values()), rtol=1e-6, atol=0)
    total.backward()
    assert [module.mean.grad.dtype for module in pairs] == list(dtypes)


def test_a_model_of_everything() -> None:
    model = nn.Sequential(
        WHVILinear(4, 8, scales="diagonal"), MeanFieldLinear(8, 8, prior_variance=0.1), MCDropout(nn.Linear(8, 300))
    )
    model.append(MeanFieldLinear(300, 300))  # so long that it is summed in pieces
    terms = [value for layer in model for value in layer.kl_terms().values()]
    torch.testing.assert_close(whvi.kl(model), torch.stack(terms).sum())
