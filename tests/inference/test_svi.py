"""The optimizer that SVI chooses."""

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from whvi.inference import SVI
from whvi.inference.svi import make_optimizer, set_rates


def descend(optimizer: Optimizer, parameters: list[Tensor]) -> None:
    """A few steps on a quartic, at rates that change."""
    for step in range(7):
        optimizer.zero_grad()
        sum(((p - 1.0) ** 4).sum() for p in parameters).backward()
        set_rates(optimizer, 0.9**step)
        optimizer.step()


def parameters(transposed: bool = False) -> list[Tensor]:
    torch.manual_seed(0)
    first, second = torch.randn(5, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    return [(first.mT if transposed else first).requires_grad_(), second.requires_grad_()]


def test_adam_in_one_pass_is_adam() -> None:
    found, wanted, start = parameters(), parameters(), parameters()
    fused = make_optimizer(SVI(0.1), found)
    assert fused.defaults["fused"] is True
    descend(fused, found)
    descend(Adam(wanted, 0.1), wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert all(bool(((a - b).abs() > 0.1).all()) for a, b in zip(found, start, strict=True))


def test_groups_have_their_own_rates() -> None:
    found, wanted = parameters(), parameters()
    grouped = [[{"params": [p], "lr": rate} for p, rate in zip(of, (0.1, 0.01), strict=True)] for of in (found, wanted)]
    fused = make_optimizer(SVI(0.5), grouped[0])
    assert fused.defaults["fused"] is True
    descend(fused, found)
    descend(Adam(grouped[1]), wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_other_layouts_and_optimizers_go_the_plain_way() -> None:
    found, wanted = parameters(transposed=True), parameters(transposed=True)
    plain = make_optimizer(SVI(0.1), found)
    assert not plain.defaults["fused"]
    descend(plain, found)
    descend(Adam(wanted, 0.1), wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert not make_optimizer(SVI(0.1, optimizer=SGD), parameters()).defaults["fused"]
