"""Schedules of the learning rate and of the KL."""

import json
from collections.abc import Callable
from itertools import pairwise
from math import sqrt

import pytest
import torch

from whvi.errors import WhviError
from whvi.inference import Constant, CosineDecay, CyclicWarmup, LinearWarmup, OneCycle, PowerDecay, PowerDecayLR, Scaled


def optimizer() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)


def test_the_papers_schedule() -> None:
    """lr0 (1 + gamma t)^-p with gamma = 0.0005 and p = 0.3, and not multiplied up from step to step."""
    base, decay = optimizer(), PowerDecay()
    scheduler = PowerDecayLR(base)
    for step in range(100):
        assert base.param_groups[0]["lr"] == pytest.approx(2.0 * (1 + 0.0005 * step) ** -0.3, rel=1e-12)
        assert decay(step) == pytest.approx((1 + 0.0005 * step) ** -0.3, rel=1e-12)
        base.step()
        scheduler.step()


def test_the_scheduler_goes_on_from_its_state() -> None:
    first, second = (PowerDecayLR(optimizer(), gamma=0.1, power=1.0) for _ in range(2))
    for _ in range(3):
        first.optimizer.step()
        first.step()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for scheduler in (first, second):
        scheduler.optimizer.step()
        scheduler.step()
    assert first.get_last_lr() == second.get_last_lr() == [pytest.approx(2.0 / 1.4)]


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (Constant(0.7), [0.7] * 6),
        (CosineDecay(4), [1.0, 0.5 + sqrt(0.125), 0.5, 0.5 - sqrt(0.125), 0.0, 0.0]),
        (OneCycle(4, share=0.5, start=0.2), [0.2, 0.6, 1.0, 0.5, 0.0, 0.0]),
        (OneCycle(5, share=0.2, start=1.0), [1.0, 1.0, 0.5 + sqrt(0.125), 0.5, 0.5 - sqrt(0.125), 0.0]),
        (LinearWarmup(4), [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]),
        (LinearWarmup(2, start=0.5), [0.5, 0.75, 1.0, 1.0, 1.0, 1.0]),
        (Scaled(LinearWarmup(2), 0.5), [0.0, 0.25, 0.5, 0.5, 0.5, 0.5]),
        (CyclicWarmup(2, cycles=2), [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
        (CyclicWarmup(3, share=1.0, cycles=1), [0.0, 1 / 3, 2 / 3, 1.0, 1.0, 1.0]),
    ],
)
def test_values(schedule: Callable[[int], float], values: list[float]) -> None:
    assert [schedule(step) for step in range(6)] == pytest.approx(values)


@pytest.mark.parametrize("schedule", [OneCycle(40), OneCycle(41, share=0.3, start=0.0), OneCycle(1, share=0.9)])
def test_one_cycle_rises_once_and_falls_to_nothing(schedule: OneCycle) -> None:
    """From ``start`` to 1 at ``share`` of its steps, without a jump, and to 0 at the last; 0 ever after."""
    top = schedule.share * schedule.steps
    values = [schedule(step) for step in range(schedule.steps + 3)]
    assert values[0] == pytest.approx(schedule.start)
    assert values[schedule.steps :] == pytest.approx([0.0] * 3, abs=1e-12)
    for step, (now, later) in enumerate(pairwise(values)):
        if step + 1 < top:
            assert now < later
        elif top <= step < schedule.steps:
            assert now > later
        assert 0.0 <= now <= 1.0
    if schedule.steps == 40:
        assert schedule(10) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PowerDecay(gamma=-1.0), "gamma"),
        (lambda: PowerDecay(power=float("nan")), "power"),
        (lambda: LinearWarmup(0), "steps"),
        (lambda: Scaled(Constant(), -1.0), "factor"),
        (lambda: Scaled(0.5, 1.0), "schedule must be a function of the step"),
        (lambda: OneCycle(0), "steps"),
        (lambda: OneCycle(10, share=0.0), "share must be more than 0 and less than 1, got 0.0"),
        (lambda: OneCycle(10, share=1.0), "share"),
        (lambda: OneCycle(10, share=float("nan")), "share"),
        (lambda: OneCycle(10, start=-0.1), "start"),
        (lambda: CosineDecay(0), "steps"),
        (lambda: CosineDecay(2.5), "steps"),  # type: ignore[arg-type]
        (lambda: CyclicWarmup(True), "period"),
        (lambda: CyclicWarmup(4, share=0.0), "share"),
    ],
)
def test_bad_settings_are_explained(make: Callable[[], object], message: str) -> None:
    with pytest.raises(WhviError, match=message):
        make()
