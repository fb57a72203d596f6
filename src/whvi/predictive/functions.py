"""The functions a prediction averages over, evaluated piece by piece: as often as wanted, each time the same."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whvi import rows as of
from whvi.ensemble import Ensemble
from whvi.errors import ShapeError
from whvi.likelihoods import Likelihood
from whvi.nn import BayesianLayer, Draw
from whvi.nn.draws import PartsError, Shape, fixing
from whvi.nn.model import bayesian_layers
from whvi.nn.outputs import tensor_of
from whvi.nn.ties import tied
from whvi.ops import seeds_from
from whvi.posterior.base import wide
from whvi.predictive.chunks import default_rows, kept_rows
from whvi.predictive.state import Snapshot, evaluating
from whvi.rows import Inputs

DEFAULT_SAMPLES = 64
"""Functions that are drawn where nothing else was said."""
GROUP = 16
"""Functions that are evaluated at once. It is fixed, so that a function depends on the seed alone."""
_PROBE = 3, 7
"""Functions and rows of a pass that tells whether layers see rows, where these are too few: 16 is the length of many
things, 3 x 7 of few, and of both hardly any."""


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
    architecture: nn.Module
    """The module that maps rows to rows."""
    layers: list[BayesianLayer]
    given: Likelihood | None
    """The likelihood of all functions, where it is one."""

    @abstractmethod
    def count(self) -> int:
        """How many functions there are to evaluate."""

    @abstractmethod
    def outputs(self, x: Inputs, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """(functions, rows, ...) for each group; a seed for each group and layer."""

    def separate(self) -> bool:
        """Evaluate functions one by one from now on; whether that is anything new."""
        return False

    @abstractmethod
    def likelihood(self, functions: range) -> Likelihood | None:
        """Of these functions, so that its parameters broadcast."""


class Network(Source):
    """Draws of one model: a group of them is one pass over the rows repeated.

    That is right where every Bayesian layer has the rows on its first axis, or rows and positions as one, rows first. A
    layer that has something else there, such as a transposed input or a table of the model's own, cannot divide it
    among the functions; then they are evaluated one by one, which is right for any model.
    """

    def __init__(self, model: nn.Module, likelihood: Likelihood | None, samples: int | None) -> None:
        self.module = self.architecture = model
        self.layers, self.given = bayesian_layers(model), likelihood
        self.samples = samples or DEFAULT_SAMPLES
        self._together, self._probed = True, False

    def count(self) -> int:
        """A model without Bayesian layers is one function."""
        return self.samples if self.layers else 1

    def outputs(self, x: Inputs, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """The batch, repeated for each function of a group; or function by function, each with a seed of its own."""
        rows, example = of.count(x), draws == "example"
        batch, each = x, 0
        for group, own in zip(groups, seeds.unbind(), strict=True):
            size = len(group)
            if not self._together or size == 1:
                yield torch.stack([self._pass(x, own + i, None if example else (), 1) for i in range(size)])
                continue
            wanted = rows if example or self._probed else self._probe(x, size, own)
            if wanted != each:
                batch, each = _repeated(x, wanted, size), wanted
            shape, counted = (None, size * each) if example else ((size,), each)
            y = self._pass(of.take(batch, slice(size * each)), own, shape, counted)
            self._probed = True
            yield y.unflatten(0, (size, each))[:, :rows]

    def _probe(self, x: Inputs, size: int, seeds: Tensor) -> int:
        """Rows of the first pass: an odd number, so that powers of two are not mistaken for rows of 16 functions."""
        functions, rows = min(size, _PROBE[0]), _PROBE[1]
        if of.count(x) >= rows:
            return of.count(x) | 1
        self._pass(_repeated(x, rows, functions), seeds, (functions,), rows)
        return of.count(x)

    def _pass(self, x: Inputs, seeds: Tensor, shape: Shape | None, rows: int) -> Tensor:
        """The model at draws of this shape: (batch, ...) -> (batch, ...)."""
        draws = {layer: Draw(seed, shape, rows) for layer, seed in zip(self.layers, seeds.unbind(), strict=True)}
        with fixing(tied(draws)):
            y = tensor_of(of.call(self.module, x))
        _check_rows(y.shape, of.count(x))
        return y

    def separate(self) -> bool:
        """No more groups."""
        new, self._together = self._together, False
        return new

    def likelihood(self, functions: range) -> Likelihood | None:
        """The one there is."""
        return self.given


class Members(Source):
    """Members of an ensemble: all of them, or fewer that are spread over it, or each several times where they draw."""

    def __init__(self, ensemble: Ensemble, likelihood: Likelihood | None, samples: int | None) -> None:
        self.module = self.ensemble = ensemble
        self.architecture, self.layers, self.given = ensemble.architecture, ensemble.layers, likelihood
        size = len(ensemble)
        equally = -(-DEFAULT_SAMPLES // size) * size
        count = samples or equally if self.layers else min(samples or size, size)
        # The samples of a Markov chain stand side by side: the first few would be the beginning of one chain.
        self.order = [s * size // count if count < size else s % size for s in range(count)]

    def count(self) -> int:
        """Members that do not draw are evaluated once."""
        return len(self.order)

    def outputs(self, x: Inputs, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """All members of a group at once."""
        for group, own in zip(groups, seeds.unbind(), strict=True):
            each = own + torch.arange(len(group), device=own.device).unsqueeze(-1)
            y = self.ensemble.functions(x, self._of(group), seeds=each, draws=draws)
            _check_rows(y.shape[1:], of.count(x))
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
        x: (N, ...), one tensor or several.
        draws: "batch", a draw of weights for each function, or "example", one for each function and row.
        batch_rows: rows in a chunk; default what suits the caches.
        seed: of everything that is drawn.

    Law: with "batch", group k is what the block k of ``whvi.sampling(model, GROUP, generator)`` gives, for a
    generator that starts from the seed; where functions are evaluated one by one, function i of the group has the seeds
    of the block plus i.
    """

    def __init__(self, source: Source, x: Inputs, draws: str, batch_rows: int | None, seed: int) -> None:
        self.source, self.x, self.count, self.draws, self.seed = source, x, source.count(), draws, seed
        self.likelihood = source.likelihood(range(self.count))
        self.rows, self.device = of.count(x), of.device(x)
        self.batch_rows = batch_rows or default_rows(source.architecture, x, min(self.count, GROUP))
        self._given_rows = batch_rows is not None
        parts: dict[str, nn.Module | Inputs] = {"the model": source.module, "x": x}
        self.snapshot = Snapshot(parts if source.given is None else {**parts, "the likelihood": source.given})
        if batch_rows is None and draws == "example":  # the functions depend on the chunks, so they must be small now
            known = self.likelihood is not None and not self.likelihood.positions
            numbers = self.likelihood.features if self.likelihood and known else self._features()
            self.batch_rows = min(self.batch_rows, kept_rows(self.count, numbers))

    def run(self, reduce: Reduce, count: int | None = None, rows: int | None = None) -> tuple[Tensor, ...]:
        """What ``reduce`` makes of every chunk, put together: tensors (N, ...).

        Args:
            reduce: called for each chunk.
            count: take the first functions only.
            rows: in a chunk, if not as many as usual.

        No rows are the first zero rows of a single row of zeros, so that all shapes are known.
        """
        self.snapshot.check()
        count, rows = self.count if count is None else count, rows or self.batch_rows
        try:
            return self._run(reduce, count, rows)
        except PartsError:
            if not self.source.separate():
                raise
            return self._run(reduce, count, rows)

    def whole_rows(self, numbers: int) -> int:
        """Rows in a chunk for what needs all functions of a row at once, where each gives so many numbers for it."""
        fixed = self._given_rows or self.draws == "example"
        return self.batch_rows if fixed else min(self.batch_rows, kept_rows(self.count, numbers))

    def _run(self, reduce: Reduce, count: int, batch_rows: int) -> tuple[Tensor, ...]:
        x = self._rows()
        rows = of.count(x)
        groups = [range(start, min(start + GROUP, count)) for start in range(0, count, GROUP)]
        seeds = seeds_from(self.seed, (len(groups), len(self.source.layers))).to(self.device)
        found: list[Tensor] = []
        with torch.no_grad(), evaluating(self.source.module):
            starts = range(0, rows, batch_rows)
            for start, key in zip(starts, self._keys(len(starts)), strict=True):
                chunk = slice(start, min(start + batch_rows, rows))
                parts = reduce(chunk, self._groups(of.take(x, chunk), groups, seeds + key))
                found = found or [part.new_empty((rows, *part.shape[1:])) for part in parts]
                for whole, part in zip(found, parts, strict=True):
                    whole[chunk] = part
        return tuple(whole[: self.rows] for whole in found)

    def _groups(self, x: Inputs, groups: list[range], seeds: Tensor) -> Iterator[Group]:
        for group, f in zip(groups, self.source.outputs(x, groups, seeds, self.draws), strict=True):
            likelihood = self.source.likelihood(group)
            if likelihood is not None:
                _check_outputs(f.shape, likelihood)
                likelihood.check(f)
            yield Group(wide(f), likelihood)

    def _rows(self) -> Any:
        return self.x if self.rows else of.mapped(lambda tensor: tensor.new_zeros((1, *tensor.shape[1:])), self.x)

    def _features(self) -> int:
        """Numbers that a function gives for a row."""
        with torch.no_grad(), evaluating(self.source.module):
            seeds = seeds_from(self.seed, (1, len(self.source.layers))).to(self.device)
            (f,) = self.source.outputs(of.take(self._rows(), slice(1)), [range(1)], seeds, self.draws)
        return f.numel()

    def _keys(self, chunks: int) -> list[int]:
        """What is added to the seeds in each chunk: nothing, unless every row has weights of its own."""
        keys: list[int] = [0] * chunks if self.draws == "batch" else seeds_from(~self.seed, (chunks,)).tolist()
        return keys


def _repeated(x: Inputs, rows: int, times: int) -> Any:
    """x with so many rows, some of them again if it has fewer, and all that several times: (times * rows, ...)."""
    return of.repeated(of.filled_up(x, rows), times)


def _check_rows(shape: torch.Size, rows: int) -> None:
    if not shape or shape[0] != rows:
        raise ShapeError(f"the model gives {tuple(shape)} for {rows} rows; its output must have a row for each of them")


def _check_outputs(shape: torch.Size, likelihood: Likelihood) -> None:
    if len(shape) < 3:
        how = "let the model end with unsqueeze(-1)" if likelihood.features == 1 else "give the model that many outputs"
        raise ShapeError(
            f"the model gives ({shape[-1]},), one number for each row and no axis of features, but "
            f"{type(likelihood).__name__} takes (rows, {likelihood.features}); {how}"
        )
