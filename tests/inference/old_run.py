"""The runs whose checkpoints version 0.1 wrote to ``golden/``: ``write(folder)``, called with that version."""

from pathlib import Path

import torch
from torch import Tensor, nn

from whvi.inference import SGHMC, SVI, EarlyStopping, LinearWarmup, fit, fit_replicas
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


def write(folder: Path) -> None:
    """All of them."""
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
        checkpoint=folder / "svi",
    )
    torch.manual_seed(0)
    fit_replicas(
        [Network(), Network()],
        [Gaussian(), Gaussian()],
        [rows()] * 2,
        steps=STEPS,
        batch_size=8,
        algorithm=[SVI(1e-2), SVI(2e-2)],
        checkpoint=folder / "replicas",
    )
    torch.manual_seed(0)
    fit(
        nn.Linear(3, 1),
        Gaussian(),
        rows(),
        steps=STEPS,
        batch_size=8,
        algorithm=SGHMC(1e-2, burn_in=2, thin=2, chains=2),
        checkpoint=folder / "sghmc",
    )
