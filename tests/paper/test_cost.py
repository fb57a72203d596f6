"""What a layer costs: allocations are counted to the byte."""

from pathlib import Path

import pytest
import torch
from torch import nn

from whvi.nn import MeanFieldLinear, WHVILinear
from whvi_paper import cost


def test_peak_is_the_largest_sum_of_what_is_alive(tmp_path: Path) -> None:
    def run() -> None:
        first = torch.empty(1000)
        del first
        second, third = torch.empty(300), torch.empty(2000, dtype=torch.float64)
        del second, third
        torch.empty(100)

    assert cost.peak(run, tmp_path / "trace.json") == 300 * 4 + 2000 * 8
    assert not list(tmp_path.iterdir())


def test_peak_does_not_count_what_was_there_before(tmp_path: Path) -> None:
    before = torch.empty(500)
    assert cost.peak(before.zero_, tmp_path / "trace.json") == 0
    assert cost.peak(before.exp, tmp_path / "trace.json") == 500 * 4


@pytest.mark.parametrize("kind", [WHVILinear, MeanFieldLinear])
def test_step_reaches_every_parameter_and_leaves_no_gradient(kind: type[nn.Module]) -> None:
    layer, seen = kind(8, 8), set()
    for name, parameter in layer.named_parameters():
        parameter.register_hook(lambda _, name=name: seen.add(name))
    cost.training_step(layer, 4, 8)()
    assert seen == {name for name, _ in layer.named_parameters()}
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_held_is_parameters_and_buffers() -> None:
    assert sum(tensor.numel() for tensor in cost.held(nn.BatchNorm1d(7))) == 4 * 7 + 1
