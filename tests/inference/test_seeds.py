"""Seeds: a function of names, and the same draws as torch's own start, wherever they are made."""

import pytest
import torch

from whvi.inference.seeds import start_generators


@pytest.mark.parametrize("accelerated", [False, True])
def test_draws_are_those_after_manual_seed(accelerated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    wanted = torch.randn(3)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerated)
    start_generators(7)
    assert torch.equal(torch.randn(3), wanted)


def test_an_accelerator_in_use_is_started_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    start_generators(7)
    assert seeds == [7]
