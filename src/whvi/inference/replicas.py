"""Many models of one architecture trained at once on one core, each with its own data, seed and learning rate.

In small networks the overhead of operations dominates: R of them together take little more
time than one. Their parameters are stacked, and ``torch.func.vmap`` maps the objective of one model to all.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi import rows as of
from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.algorithm import Algorithm, Members, Run
from whvi.inference.seeds import mix
from whvi.inference.stacked import LIKELIHOOD, Flat, Objective
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.swap import frozen
from whvi.ops import seeded, seeds_from
from whvi.ops.noise import SeedsExhausted
from whvi.rows import Inputs


class Replicas(Run):
    """R models of one architecture, each with its own data and seed, and their joint objective.

    Args:
        objectives: one for each, called with x, y and n_data.
        members: the models.
    """

    def __init__(self, objectives: Sequence[Objective], members: Members) -> None:
        self.counts, self.seeds = members.counts, members.seeds
        self.pairs = [(o.model, o.likelihood) for o in objectives]
        check_alike(self.pairs)
        self.flats = [Flat(objective) for objective in objectives]
        self.shared = {
            name
            for name, tensor in self.flats[0].tensors.items()
            if frozen(tensor) and all(flat.tensors[name] is tensor for flat in self.flats)
        }
        """Frozen parameters that all replicas have in common, such as the base of adapters: they are here once."""
        others = self.flats[0].others
        self.fixed = {
            name: value if name in self.shared else torch.stack([flat.others[name] for flat in self.flats])
            for name, value in others.items()
        }
        """What is not learned, stacked unless shared. A pass may change what is stacked in place."""
        self._axes = {name: None if name in self.shared else 0 for name in others}
        self._seeds, self._enough = 16, False
        """Seeds of a step, and whether that is known to be as many as are drawn."""

    @abstractmethod
    def rows(self) -> Tensor:
        """The parameters of all replicas, in the order of ``Flat``: (R, parameters)."""

    @abstractmethod
    def write(self, rows: Tensor) -> None:
        """Set their parameters: (R, parameters)."""

    def evaluate(self, learned: dict[str, Tensor], x: Inputs, y: Tensor, step: int, *rest: Any) -> Any:
        """The objectives of all replicas, with the noise that each would have alone: (R,) for each of their parts.

        Args:
            learned: parameters by name, stacked.
            x, y: (R, M, ...).
            step: its number.
            rest: further arguments of the objectives, the same for all.
        """
        before = {} if self._enough else {name: value.clone() for name, value in self.own().items()}
        while True:
            try:
                found = self.at_seeds(
                    learned, self.fixed, self.seeds_of(step, x, self._seeds), x, y, self.counts.to(y.device), *rest
                )
                self._seeds += not self._enough  # one to spare: a later step may draw targets, too
                self._enough = True
                return found
            except SeedsExhausted:  # in the first step, which is begun again with more
                self._seeds *= 4
                for name, value in before.items():
                    self.fixed[name].copy_(value)

    def seeds_of(self, step: int, x: Inputs, count: int) -> Tensor:
        """The noise seeds of each replica in a step, on the device of x: (R, count)."""
        seeds = [seeds_from(mix(seed, "step", step), (count,)) for seed in self.seeds]
        return torch.stack(seeds).to(of.device(x))

    def at_seeds(
        self,
        learned: dict[str, Tensor],
        fixed: dict[str, Tensor],
        seeds: Tensor,
        x: Inputs,
        y: Tensor,
        counts: Tensor,
        *rest: Any,
        graphs: bool = False,
    ) -> Any:
        """The objectives as a function of what changes between steps; ``graphs`` is that of ``ops.seeded``."""

        def one(learned: dict[str, Tensor], fixed: dict[str, Tensor], seeds: Tensor, *batch: Any) -> Any:
            with seeded(seeds, graphs=graphs):
                return self.flats[0].call({**learned, **fixed}, *batch, *rest)

        dims = (0, self._axes, 0, of.mapped(lambda _: 0, x, lambda _: None), 0, 0)
        return vmap(one, dims, randomness="different")(learned, fixed, seeds, x, y, counts)

    def own(self) -> dict[str, Tensor]:
        """Tensors that are neither learned nor shared, stacked."""
        return {name: value for name, value in self.fixed.items() if name not in self.shared}

    def unsaved(self) -> set[str]:
        """Tensors that the replicas share."""
        return {f"{r}.{name}" for r in range(len(self.flats)) for name in self.shared}

    @torch.no_grad()
    def finish(self, part: str = "") -> None:
        """Give each model and likelihood its parameters and buffers, or those alone whose names begin with ``part``."""
        for name, values in (self.flats[0].split(self.rows()) | self.own()).items():
            if name.startswith(part):
                for flat, value in zip(self.flats, values, strict=True):
                    flat.tensors[name].copy_(value)

    @torch.no_grad()
    def take(self) -> None:
        """Take the current values of the models and likelihoods: the inverse of ``finish``."""
        self.write(torch.stack([flat.flat() for flat in self.flats]))
        for name, values in self.own().items():
            values.copy_(torch.stack([flat.tensors[name] for flat in self.flats]))

    def noise(self) -> list[float] | None:
        """Standard deviation of each likelihood's noise, where they have one."""
        self.finish(LIKELIHOOD)
        noises = [likelihood.noise for _, likelihood in self.pairs]
        return None if None in noises else [float(noise) for noise in noises if noise is not None]

    def posterior(self) -> nn.Module:
        """All replicas together."""
        models, likelihoods = zip(*self.pairs, strict=True)
        return Ensemble(models, likelihoods)


def check_alike(pairs: Sequence[tuple[nn.Module, Likelihood]]) -> None:
    """Raise ArgumentError unless the replicas are alike in all but the values of their tensors, and share none that a
    fit may change: frozen parameters may be common."""
    seen: set[int] = set()
    for pair in pairs:
        tensors = (tensor for module in pair for tensor in (*module.parameters(), *module.buffers()))
        own = {id(tensor) for tensor in tensors if not frozen(tensor)}
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
    """Raise an error unless these algorithms, one for each replica, are compatible."""
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
