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

    The parameters of replica r are one vector, ``rows[r]``: a parameter of the optimiser, in a group with all replicas
    that have its learning rate.

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
        self.rows = [nn.Parameter(flat.flat()) for flat in self.flats]
        tables = [flat.fixed() for flat in self.flats]
        self.fixed = {name: torch.stack([table[name] for table in tables]) for name in tables[0]}
        groups: dict[SVI, list[int]] = {}
        for r, one in enumerate(settings):
            groups.setdefault(one, []).append(r)
        self.groups = groups
        self.optimiser = settings[0].optimiser(
            [{"params": [self.rows[r] for r in group], "lr": one.learning_rate} for one, group in groups.items()],
            lr=settings[0].learning_rate,
        )
        self._vmapped = vmap(
            lambda learned, fixed, *rest: functional_call(self.flats[0].pair, (learned, fixed), rest),
            randomness="different",
        )

    def update(self, x: Tensor, y: Tensor, step: int) -> Terms:
        """One step of all replicas: x (R, M, ...), y (R, M, ...)."""
        seeds = torch.tensor([mix(seed, "noise", step) for seed in self.seeds], device=x.device)
        learned = self.flats[0].split(torch.stack(tuple(self.rows)))
        log_likelihood, kl = self._vmapped(learned, self.fixed, x, y, self.counts, seeds)
        self.optimiser.zero_grad()
        settings = self.settings[0]
        (at(settings.beta, step) * kl - log_likelihood).sum().backward()
        frozen = step < self.pairs[0][1].frozen_steps
        for row in self.rows:
            assert row.grad is not None
            if frozen:
                row.grad[self.flats[0].model_size :] = 0.0
            if settings.clip is not None:
                nn.utils.clip_grad_norm_([row], settings.clip)
        set_rate(self.optimiser, [one.rate(step) for one in self.groups])
        self.optimiser.step()
        return Terms(log_likelihood.detach(), kl.detach())

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the replicas, and the optimiser's."""
        rows = {f"rows.{r}": row.detach() for r, row in enumerate(self.rows)}
        fixed = {f"fixed.{name}": value for name, value in self.fixed.items()}
        return rows | fixed | optimiser_tensors(self.optimiser)

    def numbers(self) -> dict[str, Any]:
        """Of the optimiser."""
        return optimiser_numbers(self.optimiser)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """All replicas and the optimiser as they were."""
        with torch.no_grad():
            for r, row in enumerate(self.rows):
                row.copy_(tensors[f"rows.{r}"])
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
        for row, flat in zip(self.rows, self.flats, strict=True):
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
