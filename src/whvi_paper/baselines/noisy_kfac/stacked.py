"""Noisy K-FAC on many models of one architecture at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.inference.algorithm import Members, Terms
from whvi.inference.replicas import Replicas
from whvi.inference.stacked import LIKELIHOOD, MODEL
from whvi.rows import Inputs
from whvi_paper.baselines.noisy_kfac.algorithm import CurvedObjective, NoisyKFAC
from whvi_paper.baselines.noisy_kfac.calls import LayerCalls
from whvi_paper.baselines.noisy_kfac.curvature import BUFFERS, Curvature, gaussian_layers
from whvi_paper.baselines.noisy_kfac.natural import NaturalSteps


class StackedKFACRun(Replicas):
    """A run of noisy K-FAC on R models: each parameter, moment and inverse has a leading axis of replicas.

    Settings may differ in ``learning_rate``.

    Law: a replica ends with the parameters of its model trained alone, with the same settings, data and seed, within
    rounding.
    """

    def __init__(self, settings: Sequence[NoisyKFAC], members: Members) -> None:
        first = settings[0]
        super().__init__([CurvedObjective(first, *pair) for pair in members.pairs()], members)
        named, flat = gaussian_layers(members.models[0]), self.flats[0]
        self.parameters = {
            name: torch.stack([other.parameters[name].detach() for other in self.flats]).requires_grad_()
            for name in flat.parameters
        }
        layers, means = {}, set()
        for name, layer in named.items():
            place = f"{MODEL}{name}." if name else MODEL
            mean = flat.places[f"{place}mean"]
            tensors = {key: self.fixed[flat.places[f"{place}{key}"]] for key in BUFFERS}
            layers[name] = Curvature(layer, self.parameters[mean], tensors, first.kl_weight / members.counts, name)
            means.add(mean)
        self.steps = NaturalSteps(
            first,
            layers,
            others=[p for name, p in self.parameters.items() if name not in means],
            noises=[p for name, p in self.parameters.items() if name.startswith(LIKELIHOOD)],
            n_data=members.counts,
            rates=torch.tensor([one.learning_rate for one in settings], dtype=torch.float64),
        )

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step of all replicas: x (R, M, ...), y (R, M, ...)."""
        model, likelihood = self.pairs[0]

        def evaluate(record: LayerCalls, curved: bool) -> tuple[Tensor, ...]:
            parts: tuple[Tensor, ...] = self.evaluate(self.parameters, x, y, step, record, curved)
            return parts

        return self.steps.take(model, evaluate, y.shape[1], step, step < likelihood.frozen_steps)

    def rows(self) -> Tensor:
        """The parameters of all replicas: (R, parameters)."""
        return torch.cat([parameter.reshape(len(self.pairs), -1) for parameter in self.parameters.values()], 1)

    @torch.no_grad()
    def write(self, rows: Tensor) -> None:
        """Into each of them."""
        for name, value in self.flats[0].split(rows).items():
            self.parameters[name].copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the replicas, and those of the steps."""
        return {name: value.detach() for name, value in self._saved().items()} | self.steps.tensors()

    def numbers(self) -> dict[str, Any]:
        """Of the steps."""
        return self.steps.numbers()

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """All replicas and the steps as they were."""
        for name, value in self._saved().items():
            value.copy_(tensors[name])
        self.steps.restore(tensors, numbers)

    def learned(self) -> list[Tensor]:
        """Parameters of all replicas."""
        return list(self.parameters.values())

    def _saved(self) -> dict[str, Tensor]:
        learned = {f"learned.{name}": value for name, value in self.parameters.items()}
        return learned | {f"fixed.{name}": value for name, value in self.own().items()}
