"""Many models of one architecture trained at once: each with its own data, seed and learning rate, on one core.

Small networks cost what their operations cost, not what their numbers cost: R of them side by side take little more
time than one. Their parameters are stacked, and ``torch.func.vmap`` turns the objective of one model into that of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from whvi.errors import ArgumentError
from whvi.inference.algorithm import Run, Terms
from whvi.inference.optimiser_state import optimiser_numbers, optimiser_tensors, restore_optimiser
from whvi.inference.schedules import at
from whvi.inference.seeds import mix
from whvi.inference.stacked import Flat
from whvi.inference.svi import SVI, set_rate
from whvi.likelihoods import Likelihood
from whvi.ops import seeded
from whvi.predictive import Ensemble


class _Objective(nn.Module):
    """The parts of the objective of one model, as the forward pass of a module, for ``functional_call``."""

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__()
        self.settings, self.model, self.likelihood = settings, model, likelihood

    def forward(self, x: Tensor, y: Tensor, n_data: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        with seeded(seed):
            parts = self.settings.estimate(self.model, self.likelihood, x, y, n_data)
        return parts.log_likelihood, parts.kl


class StackedRun(Run):
    """SVI (or MAP) at work on R models at once.

    The parameters of a replica are one row of a matrix, and the replicas of one learning rate are one matrix: to the
    optimiser it is a single parameter. It must be one that treats each number on its own, as Adam and SGD do.

    Law: a replica ends where its model would end alone, with the same settings, data and seed, within rounding.
    """

    def __init__(
        self,
        settings: Sequence[SVI],
        models: Sequence[nn.Module],
        likelihoods: Sequence[Likelihood],
        counts: Tensor,
        seeds: Sequence[int],
    ) -> None:
        self.settings, self.counts, self.seeds = settings, counts, seeds
        self.pairs = list(zip(models, likelihoods, strict=True))
        check_alike(self.pairs)
        for one, (model, _) in zip(settings, self.pairs, strict=True):
            one.check(model)
        self.flats = [Flat(_Objective(settings[0], *pair)) for pair in self.pairs]
        tables = [flat.fixed() for flat in self.flats]
        self.fixed = {name: torch.stack([table[name] for table in tables]) for name in tables[0]}
        groups: dict[SVI, list[int]] = {}
        for r, one in enumerate(settings):
            groups.setdefault(one, []).append(r)
        self.groups = list(groups)
        order = [r for group in groups.values() for r in group]
        self.places = None if len(groups) == 1 else torch.tensor(order).argsort()
        self.matrices = [nn.Parameter(torch.stack([self.flats[r].flat() for r in group])) for group in groups.values()]
        self.optimiser = settings[0].optimiser(
            [{"params": [m], "lr": one.learning_rate} for one, m in zip(groups, self.matrices, strict=True)],
            lr=settings[0].learning_rate,
        )
        self._vmapped = vmap(
            lambda learned, fixed, *rest: functional_call(self.flats[0].pair, (learned, fixed), rest),
            randomness="different",
        )

    def update(self, x: Tensor, y: Tensor, step: int) -> Terms:
        """One step of all replicas: x (R, M, ...), y (R, M, ...)."""
        seeds = torch.tensor([mix(seed, "noise", step) for seed in self.seeds], device=x.device)
        learned = self.flats[0].split(self.rows())
        log_likelihood, kl = self._vmapped(learned, self.fixed, x, y, self.counts, seeds)
        self.optimiser.zero_grad()
        settings = self.settings[0]
        (at(settings.beta, step) * kl - log_likelihood).sum().backward()
        for matrix in self.matrices:
            assert matrix.grad is not None
            if step < self.pairs[0][1].frozen_steps:
                matrix.grad[:, self.flats[0].model_size :] = 0.0
            if settings.clip is not None:
                norms = torch.linalg.vector_norm(matrix.grad, dim=1, keepdim=True)
                matrix.grad *= (settings.clip / (norms + 1e-6)).clamp_max(1.0)  # as torch.nn.utils.clip_grad_norm_
        set_rate(self.optimiser, [one.rate(step) for one in self.groups])
        self.optimiser.step()
        return Terms(log_likelihood.detach(), kl.detach())

    def rows(self) -> Tensor:
        """The parameters of all replicas: (R, parameters)."""
        return self.matrices[0] if self.places is None else torch.cat(tuple(self.matrices))[self.places]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the replicas, and the optimiser's."""
        rows = {f"rows.{i}": matrix.detach() for i, matrix in enumerate(self.matrices)}
        fixed = {f"fixed.{name}": value for name, value in self.fixed.items()}
        return rows | fixed | optimiser_tensors(self.optimiser)

    def numbers(self) -> dict[str, Any]:
        """Of the optimiser."""
        return optimiser_numbers(self.optimiser)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """All replicas and the optimiser as they were."""
        with torch.no_grad():
            for i, matrix in enumerate(self.matrices):
                matrix.copy_(tensors[f"rows.{i}"])
            for name, value in self.fixed.items():
                value.copy_(tensors[f"fixed.{name}"])
        restore_optimiser(self.optimiser, tensors, numbers)

    def finish(self) -> None:
        """Give each model and likelihood its parameters and buffers."""
        self._write_rows()
        for r, flat in enumerate(self.flats):
            for name, tensor in flat.fixed().items():
                tensor.copy_(self.fixed[name][r])

    def noise(self) -> list[float] | None:
        """Standard deviation of each likelihood's noise, where they have one."""
        self._write_rows()
        noises = [likelihood.noise for _, likelihood in self.pairs]
        return None if None in noises else [float(noise) for noise in noises if noise is not None]

    def posterior(self) -> nn.Module:
        """All replicas together."""
        models, likelihoods = zip(*self.pairs, strict=True)
        return Ensemble(models, likelihoods)

    def _write_rows(self) -> None:
        for row, flat in zip(self.rows().detach(), self.flats, strict=True):
            flat.write(row)


def check_alike(pairs: Sequence[tuple[nn.Module, Likelihood]]) -> None:
    """Raise ArgumentError unless all replicas have parameters of the same names, shapes and dtypes."""
    if len({id(model) for model, _ in pairs}) < len(pairs) or len({id(like) for _, like in pairs}) < len(pairs):
        raise ArgumentError("each replica needs a model and a likelihood of its own; copy them with copy.deepcopy")
    tables = [
        {
            f"{prefix}.{name}": (tuple(p.shape), p.dtype, p.requires_grad)
            for prefix, module in zip(("model", "likelihood"), pair, strict=True)
            for name, p in (*module.named_parameters(), *module.named_buffers())
        }
        for pair in pairs
    ]
    for r, table in enumerate(tables):
        if table != tables[0]:
            names = sorted(name for name in {*table, *tables[0]} if table.get(name) != tables[0].get(name))
            raise ArgumentError(f"replicas must have one architecture, but {r} and 0 differ in {', '.join(names)}")
