"""SVI on many models of one architecture at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whvi.inference.algorithm import Members, Terms
from whvi.inference.compiled import Gradients
from whvi.inference.flat_svi import check_groups, descend
from whvi.inference.optimizer_state import optimizer_numbers, optimizer_tensors, restore_optimizer
from whvi.inference.replicas import Replicas
from whvi.inference.schedules import at
from whvi.inference.svi import SVI, make_optimizer, set_rates
from whvi.rows import Inputs


class StackedRun(Replicas):
    """A run of SVI (or MAP) on R models at once.

    The parameters of a replica are one row of a matrix, and the replicas of one learning rate are one matrix: to the
    optimizer it is a single parameter. The optimizer must be elementwise, as Adam and SGD are.

    Law: a replica ends with the parameters of its model trained alone, with the same settings, data and seed, within
    rounding.
    """

    def __init__(self, settings: Sequence[SVI], members: Members, compiled: bool = False) -> None:
        first = settings[0]
        super().__init__([first.bound(first, *pair) for pair in members.pairs()], members)
        self.settings = settings
        self.groups: list[tuple[SVI, list[int]]] = []
        for r, one in enumerate(settings):
            same = [group for other, group in self.groups if other == one]
            same[0].append(r) if same else self.groups.append((one, [r]))
        order = [r for _, group in self.groups for r in group]
        self.places = None if len(self.groups) == 1 else torch.tensor(order).argsort()
        self.matrices = [nn.Parameter(torch.stack([self.flats[r].flat() for r in group])) for _, group in self.groups]
        self.optimizer = make_optimizer(
            first,
            [{"params": [m], "lr": one.learning_rate} for (one, _), m in zip(self.groups, self.matrices, strict=True)],
        )
        check_groups(self.optimizer, len(self.groups))
        self.gradients = Gradients(self._bound) if compiled else None

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step of all replicas: x (R, M, ...), y (R, M, ...)."""
        terms = self._differentiate(x, y, step)
        set_rates(self.optimizer, *(at(one.schedule, step) for one, _ in self.groups))
        frozen = step < self.pairs[0][1].frozen_steps
        descend(self.optimizer, self.matrices, self.settings[0].clip, self.flats[0].model_size if frozen else None)
        return terms

    def _differentiate(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """Compute the gradients of the matrices; returns the terms of the bound, (R,) each."""
        weight = at(self.settings[0].kl_weight, step)
        if self.gradients is None:
            log_likelihood, kl = self.evaluate(self.flats[0].split(self.rows()), x, y, step)
            self.optimizer.zero_grad()
            (weight * kl - log_likelihood).sum().backward()
            return Terms(log_likelihood.detach(), kl.detach())
        terms, gradients = self.gradients(
            [matrix.detach() for matrix in self.matrices],
            self.fixed,
            lambda count: self.seeds_of(step, x, count),
            weight,
            x,
            y,
            self.counts.to(y.device),
        )
        for matrix, gradient in zip(self.matrices, gradients, strict=True):
            matrix.grad = gradient
        return terms

    def _bound(self, matrices: list[Tensor], fixed: dict[str, Tensor], seeds: Tensor, *batch: Any) -> Any:
        """The terms of the bound as a function of everything that changes between steps."""
        return self.at_seeds(self.flats[0].split(self._in_order(matrices)), fixed, seeds, *batch, graphs=True)

    def rows(self) -> Tensor:
        """The parameters of all replicas: (R, parameters)."""
        return self._in_order(self.matrices)

    @torch.no_grad()
    def write(self, rows: Tensor) -> None:
        """Into the matrices."""
        for matrix, (_, group) in zip(self.matrices, self.groups, strict=True):
            matrix.copy_(rows[group])

    def _in_order(self, matrices: Sequence[Tensor]) -> Tensor:
        return matrices[0] if self.places is None else torch.cat(tuple(matrices))[self.places]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the replicas, and the optimizer's."""
        rows = {f"rows.{i}": matrix.detach() for i, matrix in enumerate(self.matrices)}
        fixed = {f"fixed.{name}": value for name, value in self.own().items()}
        return rows | fixed | optimizer_tensors(self.optimizer)

    def numbers(self) -> dict[str, Any]:
        """Of the optimizer."""
        return optimizer_numbers(self.optimizer)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """All replicas and the optimizer as they were."""
        with torch.no_grad():
            for i, matrix in enumerate(self.matrices):
                matrix.copy_(tensors[f"rows.{i}"])
            for name, value in self.own().items():
                value.copy_(tensors[f"fixed.{name}"])
        restore_optimizer(self.optimizer, tensors, numbers)

    def learned(self) -> list[Tensor]:
        """Parameters of all replicas."""
        return list(self.matrices)
