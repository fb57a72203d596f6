"""Many models of one architecture trained at once: each with its own data, seed and learning rate, on one core.

Small networks cost what their operations cost, not what their numbers cost: R of them side by side take little more
time than one. Their parameters are stacked, and ``torch.func.vmap`` turns the objective of one model into that of all.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.compiled import Compiled
from whvi.inference.optimiser_state import optimiser_numbers, optimiser_tensors, restore_optimiser
from whvi.inference.schedules import at
from whvi.inference.seeds import mix
from whvi.inference.stacked import LIKELIHOOD, Flat
from whvi.inference.svi import SVI, make_optimiser, set_rates
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import anatomy, differences
from whvi.ops import seeded, seeds_from
from whvi.ops.noise import SeedsExhausted
from whvi.predictive import Ensemble


class Objective(nn.Module):
    """What the steps of one model differentiate, as the forward pass of a module, for ``functional_call``."""

    def __init__(self, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__()
        self.model, self.likelihood = model, likelihood


class _Bound(Objective):
    """The parts of the bound."""

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__(model, likelihood)
        self.settings = settings

    def forward(self, x: Tensor, y: Tensor, n_data: Tensor) -> tuple[Tensor, Tensor]:
        parts = self.settings.estimate(self.model, self.likelihood, x, y, n_data)
        return parts.log_likelihood, parts.kl


class Replicas(Run):
    """R models of one architecture, each with its own data and seed: their objectives at once, and what holds them.

    Args:
        objectives: one for each, called with x, y and n_data.
        counts: rows of the data of each, (R,).
        seeds: of the noise of each.
    """

    def __init__(self, objectives: Sequence[Objective], counts: Tensor, seeds: Sequence[int]) -> None:
        self.counts, self.seeds = counts, seeds
        self.pairs = [(o.model, o.likelihood) for o in objectives]
        check_alike(self.pairs)
        self.flats = [Flat(objective) for objective in objectives]
        self.fixed = {name: torch.stack([flat.others[name] for flat in self.flats]) for name in self.flats[0].others}
        """What is not learned, stacked. A pass may change it in place."""
        self._draws, self._enough = 16, False
        """Seeds of a step, and whether that is known to be as many as are drawn."""

    @abstractmethod
    def rows(self) -> Tensor:
        """The parameters of all replicas, in the order of ``Flat``: (R, parameters)."""

    def evaluate(self, learned: dict[str, Tensor], x: Tensor, y: Tensor, step: int, *rest: Any) -> Any:
        """The objectives of all replicas, with the noise that each would have alone: (R,) for each of their parts.

        Args:
            learned: parameters by name, stacked.
            x, y: (R, M, ...).
            step: its number.
            rest: further arguments of the objectives, the same for all.
        """
        before = {} if self._enough else {name: value.clone() for name, value in self.fixed.items()}
        while True:
            try:
                found = self.at_seeds(
                    learned, self.fixed, self.seeds_of(step, x), x, y, self.counts.to(x.device), *rest
                )
                self._draws += not self._enough  # one to spare: a later step may draw targets, too
                self._enough = True
                return found
            except SeedsExhausted:  # in the first step, which is begun again with more
                self._draws *= 4
                for name, value in before.items():
                    self.fixed[name].copy_(value)

    def seeds_of(self, step: int, x: Tensor) -> Tensor:
        """What each replica draws its noise from in a step, where x is: (R, draws)."""
        seeds = [seeds_from(mix(seed, "step", step), (self._draws,)) for seed in self.seeds]
        return torch.stack(seeds).to(x.device)

    def at_seeds(
        self,
        learned: dict[str, Tensor],
        fixed: dict[str, Tensor],
        seeds: Tensor,
        x: Tensor,
        y: Tensor,
        counts: Tensor,
        *rest: Any,
        graphs: bool = False,
    ) -> Any:
        """The objectives as a function of all that changes from step to step; ``graphs`` is that of ``ops.seeded``."""

        def one(learned: dict[str, Tensor], fixed: dict[str, Tensor], seeds: Tensor, *batch: Tensor) -> Any:
            with seeded(seeds, graphs=graphs):
                return self.flats[0].call({**learned, **fixed}, *batch, *rest)

        return vmap(one, randomness="different")(learned, fixed, seeds, x, y, counts)

    @torch.no_grad()
    def finish(self, part: str = "") -> None:
        """Give each model and likelihood its parameters and buffers, or those alone whose names begin with ``part``."""
        for name, values in (self.flats[0].split(self.rows()) | self.fixed).items():
            if name.startswith(part):
                for flat, value in zip(self.flats, values, strict=True):
                    flat.tensors[name].copy_(value)

    def noise(self) -> list[float] | None:
        """Standard deviation of each likelihood's noise, where they have one."""
        self.finish(LIKELIHOOD)
        noises = [likelihood.noise for _, likelihood in self.pairs]
        return None if None in noises else [float(noise) for noise in noises if noise is not None]

    def posterior(self) -> nn.Module:
        """All replicas together."""
        models, likelihoods = zip(*self.pairs, strict=True)
        return Ensemble(models, likelihoods)


class StackedRun(Replicas):
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
        compiled: bool = False,
    ) -> None:
        super().__init__([_Bound(settings[0], *p) for p in zip(models, likelihoods, strict=True)], counts, seeds)
        self.settings = settings
        for one, model in zip(settings, models, strict=True):
            one.check(model)
        self.groups: list[tuple[SVI, list[int]]] = []
        for r, one in enumerate(settings):
            same = [group for other, group in self.groups if other == one]
            same[0].append(r) if same else self.groups.append((one, [r]))
        order = [r for _, group in self.groups for r in group]
        self.places = None if len(self.groups) == 1 else torch.tensor(order).argsort()
        self.matrices = [nn.Parameter(torch.stack([self.flats[r].flat() for r in group])) for _, group in self.groups]
        self.optimiser = make_optimiser(
            settings[0],
            [{"params": [m], "lr": one.learning_rate} for (one, _), m in zip(self.groups, self.matrices, strict=True)],
        )
        if len(self.optimiser.param_groups) != len(self.groups):
            raise UnsupportedError("replicas need an optimiser that takes the parameter groups it is given")
        self.compiled = Compiled(self._gradients) if compiled else None

    def update(self, x: Tensor, y: Tensor, step: int) -> Terms:
        """One step of all replicas: x (R, M, ...), y (R, M, ...)."""
        log_likelihood, kl = self.differentiate(x, y, step)
        settings = self.settings[0]
        frozen = step < self.pairs[0][1].frozen_steps
        noise = [matrix.detach()[:, self.flats[0].model_size :] for matrix in self.matrices]  # of the likelihoods
        before = [part.clone() for part in noise] if frozen else []
        for matrix in self.matrices:
            assert matrix.grad is not None
            if frozen:
                matrix.grad[:, self.flats[0].model_size :] = 0.0
            if settings.clip is not None:
                norms = torch.linalg.vector_norm(matrix.grad, dim=1, keepdim=True)
                matrix.grad *= (settings.clip / (norms + 1e-6)).clamp_max(1.0)  # as torch.nn.utils.clip_grad_norm_
        set_rates(self.optimiser, *(at(one.schedule, step) for one, _ in self.groups))
        self.optimiser.step()
        if frozen:
            for part, value in zip(noise, before, strict=True):
                part.copy_(value)
        return Terms(log_likelihood.detach(), kl.detach())

    def differentiate(self, x: Tensor, y: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Give the matrices their gradients; the parts of the bound, (R,) each."""
        beta = at(self.settings[0].beta, step)
        if self.compiled is None:
            log_likelihood, kl = self.evaluate(self.flats[0].split(self.rows()), x, y, step)
            self.optimiser.zero_grad()
            (beta * kl - log_likelihood).sum().backward()
            return log_likelihood, kl
        if not self._enough:  # a graph must know how many seeds there are
            before = {name: value.clone() for name, value in self.fixed.items()}
            with torch.no_grad():
                self.evaluate(self.flats[0].split(self.rows()), x, y, step)
            for name, value in before.items():
                self.fixed[name].copy_(value)
        matrices = [matrix.detach() for matrix in self.matrices]
        counts, weight = self.counts.to(x.device), matrices[0].new_tensor(beta)
        log_likelihood, kl, gradients = self.compiled(
            matrices, self.fixed, self.seeds_of(step, x), x, y, counts, weight
        )
        for matrix, gradient in zip(self.matrices, gradients, strict=True):
            matrix.grad = gradient
        return log_likelihood, kl

    def _gradients(
        self, matrices: list[Tensor], fixed: dict[str, Tensor], seeds: Tensor, x: Tensor, y: Tensor, *rest: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The parts of the bound and the gradients of the matrices, as a function of tensors."""
        counts, beta = rest
        matrices = [matrix.detach().requires_grad_() for matrix in matrices]
        learned = self.flats[0].split(self._in_order(matrices))
        log_likelihood, kl = self.at_seeds(learned, fixed, seeds, x, y, counts, graphs=True)
        gradients = torch.autograd.grad((beta * kl - log_likelihood).sum(), matrices)
        return log_likelihood.detach(), kl.detach(), list(gradients)

    def rows(self) -> Tensor:
        """The parameters of all replicas: (R, parameters)."""
        return self._in_order(self.matrices)

    def _in_order(self, matrices: Sequence[Tensor]) -> Tensor:
        return matrices[0] if self.places is None else torch.cat(tuple(matrices))[self.places]

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

    def learned(self) -> list[Tensor]:
        """Parameters of all replicas."""
        return list(self.matrices)


def check_alike(pairs: Sequence[tuple[nn.Module, Likelihood]]) -> None:
    """Raise ArgumentError unless the replicas are alike in all but the values of their tensors, and share none."""
    seen: set[int] = set()
    for pair in pairs:
        own = {id(tensor) for module in pair for tensor in (*module.parameters(), *module.buffers())}
        if own & seen or any(pair[i] is other[i] for other in pairs for i in (0, 1) if other is not pair):
            raise ArgumentError("each replica needs a model and a likelihood of its own; copy them with copy.deepcopy")
        seen |= own
    first, *others = [anatomy(model) | anatomy(likelihood, "likelihood") for model, likelihood in pairs]
    for r, other in enumerate(others, 1):
        found = differences(first, other)
        if found:
            raise ArgumentError(
                f"replicas may differ in the values of their parameters only, but in replica {r} {'; '.join(found[:3])}"
            )


def check_settings(settings: Sequence[Any]) -> None:
    """Raise the error that says why these algorithms, one for each replica, are not one for all."""
    first = settings[0]
    for one in settings:
        if not isinstance(one, Algorithm) or type(one) is not type(first):
            raise InputTypeError(
                f"replicas are fitted by SVI(), MAP() or another algorithm, one kind for all, got {first!r} and {one!r}"
            )
    free = first.replica_settings
    for one in settings[1:]:
        if replace(one, **{name: getattr(first, name) for name in free if hasattr(first, name)}) != first:
            raise ArgumentError(f"replicas may differ in {' and '.join(free)} only, got {first} and {one}")
