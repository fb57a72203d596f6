"""The run whose checkpoint whvi 0.1 wrote to ``golden/``: ``python old_run.py FOLDER``, with that version."""

import sys

import torch
from torch import Tensor, nn

from whvi.inference import SVI, EarlyStopping, LinearWarmup, fit
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

STEPS = 6


def shrink(x: Tensor) -> Tensor:
    """A function that the network holds, which version 0.1 told apart by its byte code."""
    return 0.5 * x


class Network(nn.Module):
    """One Bayesian layer, and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.activation, self.last = WHVILinear(3, 4), shrink, nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3) -> (N, 1)."""
        y: Tensor = self.last(self.activation(self.first(x)))
        return y


def rows() -> tuple[Tensor, Tensor]:
    """The same bits everywhere."""
    x = (torch.arange(60.0).reshape(20, 3) * 7 % 16) / 8 - 1
    return x, x.sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(
        Network(),
        Gaussian(),
        rows(),
        steps=STEPS,
        batch_size=8,
        algorithm=SVI(1e-2, beta=LinearWarmup(4)),
        early_stopping=EarlyStopping(every=2, samples=2),
        validation=rows(),
        checkpoint=sys.argv[1],
    )
