"""Perceptrons: what their layers are made of, and how they may start."""

from math import log

import pytest
import torch
from torch import nn

from whvi_paper.networks import METHODS, narrow, network


@pytest.mark.parametrize(("method", "random"), [("whvi-t4", "g.log_std"), ("low-rank", "left.log_std|right.log_std")])
def test_a_narrow_start_changes_the_spread_of_hidden_weights_alone(method: str, random: str) -> None:
    model = network(method, 3, 2, 2, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    narrow(model, 10.0)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"{layer}.{name}" for layer in (0, 2) for name in random.split("|")}
    for name in changed:
        torch.testing.assert_close(after[name], before[name] - log(10.0))


def test_terms_add_parameters_of_hidden_layers_and_low_rank_has_as_many_as_four() -> None:
    def count(method: str) -> int:
        return sum(p.numel() for p in network(method, 16, 26, 2, 128).parameters())

    one, two, four, eight = (count(method) for method in ("whvi", "whvi-t2", "whvi-t4", "whvi-t8"))
    assert (two - one, four - one, eight - one) == (two - one, 3 * (two - one), 7 * (two - one))
    assert abs(count("low-rank") / four - 1) < 0.02


def test_every_method_is_a_network() -> None:
    x = torch.randn(5, 8)
    for method in METHODS:
        model = network(method, 8, 2, 1, 8)
        assert isinstance(model, nn.Sequential)
        assert model(x).shape == (5, 2)
