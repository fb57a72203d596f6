"""How a process is trained, whatever it is made of: one set of numbers, and the loop of those that are not whvi's."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from whvi.inference import CosineDecay
from whvi.inference.schedules import Schedule, at
from whvi.inference.svi import set_rates
from whvi_paper.jobs import Inputs, Report


@dataclass(frozen=True)
class Optimisation:
    """Adam, alike for all methods."""

    steps: int
    learning_rate: float
    schedule: float | Schedule = 1.0
    """Factor of the rate."""
    frozen_steps: int = 0
    """For so many the noise stays what it is."""
    batch_size: int = 256
    noise_variance: float = 0.02**2
    """Where it starts."""
    seed: int = 0

    @classmethod
    def of(cls, one: Inputs) -> "Optimisation":
        """What the inputs of a record say."""
        settings = dict(one["configuration"])
        schedules: dict[str, float | Schedule] = {"constant": 1.0, "cosine": CosineDecay(one["steps"])}
        names = ("learning_rate", "frozen_steps", "batch_size", "noise_variance")
        chosen = {name: settings[name] for name in names if name in settings}
        return cls(steps=one["steps"], schedule=schedules[settings["schedule"]], seed=one["seed"], **chosen)


def minimise(
    loss: Callable[[int], Tensor], parameters: Iterable[Tensor], settings: Optimisation, report: Report
) -> None:
    """Adam on a function of the step; it tells its share about a hundred times.

    >>> x = torch.ones(1, requires_grad=True)
    >>> minimise(lambda step: x.square().sum(), [x], Optimisation(200, 0.1), lambda share: None)
    >>> abs(x.item()) < 1e-3
    True
    """
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate)
    for step in range(settings.steps):
        optimizer.zero_grad()
        loss(step).backward()
        set_rates(optimizer, at(settings.schedule, step))
        optimizer.step()
        if step % max(1, settings.steps // 100) == 0:
            report(step / settings.steps)
