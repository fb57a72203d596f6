"""The functions a prediction averages over, evaluated piece by piece: as often as wanted, each time the same."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whvi.errors import InputTypeError, ShapeError
from whvi.likelihoods import Likelihood
from whvi.nn import BayesianLayer, Draw
from whvi.nn.draws import fixing
from whvi.nn.model import bayesian_layers
from whvi.ops import seeds_from
from whvi.posterior.base import wide
from whvi.predictive.ensemble import Ensemble
from whvi.predictive.state import Snapshot, evaluating

GROUP = 16
"""Functions that are evaluated at once. It is fixed, so that a function depends on the seed alone."""
PIECE = 1 << 19
"""Numbers in the widest activation of a piece, about: measured; with less, overhead counts, with more, caches miss."""
KEPT = 1 << 20
"""Numbers that all functions give for a chunk of rows, at most: quantiles hold them at once."""


class Group(NamedTuple):
    """Some of the functions at a chunk of rows."""

    f: Tensor
    """(functions, rows, features), in float32 or float64."""
    likelihood: Likelihood | None
    """Of these functions."""


Reduce = Callable[[slice, Iterator[Group]], tuple[Tensor, ...]]
"""Makes of a chunk of rows and its groups what is wanted of them: tensors (rows, ...)."""


class Source(ABC):
    """What functions come from."""

    module: nn.Module
    layers: list[BayesianLayer]
    given: Likelihood | None
    """The likelihood of all functions, where it is one."""

    @abstractmethod
    def count(self) -> int:
        """How many functions there are to evaluate."""

    @abstractmethod
    def outputs(self, x: Tensor, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """(functions, rows, ...) for each group; a seed for each group and layer."""

    @abstractmethod
    def likelihood(self, functions: range) -> Likelihood | None:
        """Of these functions, so that its parameters broadcast."""


class Network(Source):
    """Draws of one model: a group of them is one pass over the rows repeated."""

    def __init__(self, model: nn.Module, likelihood: Likelihood | None, samples: int | None) -> None:
        self.module, self.layers, self.given = model, bayesian_layers(model), likelihood
        self.samples = samples or 64

    def count(self) -> int:
        """A model without Bayesian layers is one function."""
        return self.samples if self.layers else 1

    def outputs(self, x: Tensor, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """The batch, repeated for each function of a group."""
        rows = x.shape[0]
        repeated = x.expand(len(groups[0]), *x.shape).flatten(0, 1)
        for group, own in zip(groups, seeds.unbind(), strict=True):
            size = len(group)
            shape = None if draws == "example" else (size,) if size > 1 else ()
            with fixing({layer: Draw(seed, shape) for layer, seed in zip(self.layers, own.unbind(), strict=True)}):
                y = self.module(repeated[: size * rows])
            if not isinstance(y, Tensor):
                raise InputTypeError(f"the model must give a torch.Tensor, got {type(y).__name__}")
            _check_rows(y.shape, size * rows)
            yield y.unflatten(0, (size, rows))

    def likelihood(self, functions: range) -> Likelihood | None:
        """The one there is."""
        return self.given


class Members(Source):
    """Members of an ensemble: all of them, or fewer that are spread over it, or each several times where they draw."""

    def __init__(self, ensemble: Ensemble, likelihood: Likelihood | None, samples: int | None) -> None:
        self.module = self.ensemble = ensemble
        self.layers, self.given = ensemble.layers, likelihood
        size = len(ensemble)
        count = size if samples is None else samples if self.layers else min(samples, size)
        # The samples of a Markov chain stand side by side: the first few would be the beginning of one chain.
        self.order = [s * size // count if count < size else s % size for s in range(count)]

    def count(self) -> int:
        """Members that do not draw are evaluated once."""
        return len(self.order)

    def outputs(self, x: Tensor, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """All members of a group at once."""
        for group, own in zip(groups, seeds.unbind(), strict=True):
            each = own + torch.arange(len(group), device=own.device).unsqueeze(-1)
            y = self.ensemble.functions(x, self._of(group), seeds=each, draws=draws)
            _check_rows(y.shape[1:], x.shape[0])
            yield y

    def likelihood(self, functions: range) -> Likelihood | None:
        """One for all, or each its own."""
        return self.ensemble.likelihood(self._of(functions)) if self.given is None else self.given

    def _of(self, functions: range) -> list[int]:
        return [self.order[function % len(self.order)] for function in functions]


class Functions:
    """S functions at N rows.

    Args:
        source: what they come from.
        x: (N, ...).
        draws: "function", a draw of weights for each function, or "example", one for each function and row.
        batch_rows: rows in a chunk; default what suits the caches.
        seed: of everything that is drawn.

    Law: with "function", group k is what the block k of ``whvi.sampling(model, GROUP, generator)`` gives, for a
    generator that starts from the seed.
    """

    def __init__(self, source: Source, x: Tensor, draws: str, batch_rows: int | None, seed: int) -> None:
        self.source, self.x, self.count, self.draws, self.seed = source, x, source.count(), draws, seed
        self.likelihood = source.likelihood(range(self.count))
        self.batch_rows = batch_rows or default_rows(source.module, x, self.count, self.likelihood)
        parts: dict[str, nn.Module | Tensor] = {"the model": source.module, "x": x}
        self.snapshot = Snapshot(parts if source.given is None else {**parts, "the likelihood": source.given})

    def run(self, reduce: Reduce, count: int | None = None) -> tuple[Tensor, ...]:
        """What ``reduce`` makes of every chunk, put together: tensors (N, ...). Of the first ``count`` functions only.

        No rows are the first zero rows of a single row of zeros, so that all shapes are known.
        """
        self.snapshot.check()
        rows = self.x.shape[0]
        x = self.x if rows else self.x.new_zeros((1, *self.x.shape[1:]))
        count = self.count if count is None else count
        groups = [range(start, min(start + GROUP, count)) for start in range(0, count, GROUP)]
        seeds = seeds_from(self.seed, (len(groups), len(self.source.layers))).to(x.device)
        found: list[Tensor] = []
        with torch.no_grad(), evaluating(self.source.module):
            for start, key in zip(range(0, x.shape[0], self.batch_rows), self._keys(x.shape[0]), strict=True):
                chunk = slice(start, min(start + self.batch_rows, x.shape[0]))
                parts = reduce(chunk, self._groups(x[chunk], groups, seeds + key))
                found = found or [part.new_empty((x.shape[0], *part.shape[1:])) for part in parts]
                for whole, part in zip(found, parts, strict=True):
                    whole[chunk] = part
        return tuple(whole[:rows] for whole in found)

    def _groups(self, x: Tensor, groups: list[range], seeds: Tensor) -> Iterator[Group]:
        for group, f in zip(groups, self.source.outputs(x, groups, seeds, self.draws), strict=True):
            likelihood = self.source.likelihood(group)
            if likelihood is not None:
                likelihood.check(f)
            yield Group(wide(f), likelihood)

    def _keys(self, rows: int) -> list[int]:
        """What is added to the seeds in each chunk: nothing, unless every row has weights of its own."""
        chunks = -(-rows // self.batch_rows)
        keys: list[int] = [0] * chunks if self.draws == "function" else seeds_from(~self.seed, (chunks,)).tolist()
        return keys


def default_rows(model: nn.Module, x: Tensor, count: int, likelihood: Likelihood | None) -> int:
    """Rows in a chunk, by a guess at the widest activation: the longest side of a parameter, at each position of x."""
    positions = prod(x.shape[2:])
    shapes = [parameter.shape[isinstance(model, Ensemble) :] for parameter in model.parameters()]
    sides = [max(shape[:2], default=1) for shape in shapes]
    width = max(prod(x.shape[1:]), max(sides, default=1) * positions, 1)
    features = 1 if likelihood is None else likelihood.features
    return max(1, min(PIECE // (min(count, GROUP) * width), KEPT // (count * features)))


def _check_rows(shape: torch.Size, rows: int) -> None:
    if not shape or shape[0] != rows:
        raise ShapeError(f"the model gives {tuple(shape)} for {rows} rows; its output must have a row for each of them")
