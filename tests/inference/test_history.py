"""What a run reports: means over windows, and all of it comes back from a checkpoint."""

import json
from typing import Any

import pytest
import torch

from whvi.inference.algorithm import Terms
from whvi.inference.callbacks.history import History


def reported(rows: int | None, steps: int, noise: Any) -> History:
    """Of one run (rows is None), or of so many replicas."""
    history = History(every=2)
    for step in range(steps):
        parts = torch.randn(2) if rows is None else torch.randn(2, rows)
        history.add(Terms(*parts), step, noise)
    return history


@pytest.mark.parametrize(("rows", "noise"), [(None, 0.5), (None, None), (3, [0.5, 0.25, 1.0]), (3, None)])
def test_all_of_it_comes_back(rows: int | None, noise: Any) -> None:
    history = reported(rows, 7, noise)  # three windows, and half of one
    history.validation.append((4, 0.25))
    tensors, numbers = history.state()
    other = History(every=100)
    other.restore(tensors, json.loads(json.dumps(numbers)))
    assert other == history
    assert other.steps == [2, 4, 6]
    assert other.noise == [noise] * 3
    for one in (history, other):
        one.add(Terms(*torch.ones(2, *other._sum.shape[1:])), 7, noise)
    assert other == history


def test_json_does_not_grow_with_the_windows() -> None:
    """It has a largest size in a checkpoint, which a long run of many replicas would reach."""
    sizes = {len(json.dumps(reported(20, steps, None).state()[1])) for steps in (10, 1000)}
    assert len(sizes) == 1


def test_the_bound_is_the_difference_of_its_parts() -> None:
    for rows in (None, 3):
        history = reported(rows, 4, 0.5)
        expected = torch.tensor(history.log_likelihood) - torch.tensor(history.kl)
        torch.testing.assert_close(torch.tensor(history.elbo), expected)
        assert history.latest == {
            "elbo": history.elbo[-1],
            "log-lik": history.log_likelihood[-1],
            "kl": history.kl[-1],
            "noise": 0.5,
        }
