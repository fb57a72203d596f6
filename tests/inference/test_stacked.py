"""Copies of a network as rows of a matrix."""

import torch
from torch import nn

from whvi.inference.stacked import LIKELIHOOD, MODEL, Stacked
from whvi.likelihoods import Gaussian


class Shared(nn.Module):
    """A weight that is used twice, one without ``reset_parameters``, and one that is not learned."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.ones(()))
        self.still = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.scale * self.second(self.first(x).tanh()) * self.still).sum(-1, keepdim=True)


def test_each_row_has_the_value_and_gradient_of_its_own_network() -> None:
    model, likelihood = Shared().double(), Gaussian().double()
    stacked = Stacked(model, likelihood)
    assert stacked.names == ["scale", "first.weight"]
    rows = torch.randn(4, 11).double()
    x, y = torch.randn(5, 3).double(), torch.randn(5, 1).double()
    values, gradients = stacked.log_likelihood(rows, x, y, 20)
    for row, value, gradient in zip(rows, values, gradients, strict=True):
        stacked.write(row)
        alone = 20 / 5 * likelihood.log_prob(model(x), y).sum()
        parts = torch.autograd.grad(alone, list(stacked.parameters.values()))
        torch.testing.assert_close(value, alone.detach())
        torch.testing.assert_close(gradient, torch.cat([part.flatten() for part in parts]))


def test_split_write_and_flat_are_inverse() -> None:
    model, likelihood = Shared(), Gaussian(2, "output")
    stacked = Stacked(model, likelihood)
    row = torch.randn(12)
    stacked.write(row)
    assert torch.equal(stacked.flat(), row)
    assert torch.equal(model.first.weight, stacked.split(row, MODEL)["first.weight"])
    assert torch.equal(likelihood.log_variance, stacked.split(row, LIKELIHOOD)["log_variance"])
    assert stacked.model_size == 10
    assert stacked.split(row.expand(2, 3, 12), MODEL)["scale"].shape == (2, 3)


def test_other_starts_leave_the_model_alone_and_are_spread_out() -> None:
    model = Shared()
    stacked = Stacked(model, Gaussian())
    before = stacked.flat()
    std = stacked.spread([0.5, 2.0, 1.0])  # of scale, weight, log_variance
    starts = torch.stack([stacked.elsewhere(std) for _ in range(500)])
    assert torch.equal(stacked.flat(), before)
    assert len(starts.unique(dim=0)) == 500
    weight = starts[:, 1:10]  # nn.Linear(3, 3) draws it anew from [-1, 1] / sqrt(3)
    assert float(weight.abs().max()) <= 3**-0.5
    assert abs(float(weight.std()) - 1 / 3) < 0.02
    for column, spread in ((0, 0.5), (10, 1.0)):
        assert abs(float(starts[:, column].std()) / spread - 1.0) < 0.15
        assert abs(float(starts[:, column].mean() - before[column])) < 0.15
