"""The rows and the network of tests of ``whvi.fit``, and the comparison of two fits bit by bit."""

import torch
from torch import Tensor, nn

from whvi.nn import MeanFieldLinear, WHVILinear

Data = tuple[Tensor, Tensor]


def rows() -> Data:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 3, generator=generator)
    return x, x.sum(1, keepdim=True).sin() + 0.1 * torch.randn(120, 1, generator=generator)


def network(outputs: int = 1) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(WHVILinear(3, 16), nn.ReLU(), nn.Dropout(0.1), MeanFieldLinear(16, outputs))


def bits(*modules: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for module in modules for p in module.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
