"""The draws that a prediction averages over, evaluated in chunks, reproducibly."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whvi import rows as of
from whvi.caller import warn_caller
from whvi.errors import ShapeError
from whvi.inference.seeds import mix, start_generators
from whvi.likelihoods import Likelihood
from whvi.nn.draws import PartsError
from whvi.ops import seeds_from
from whvi.posterior.base import wide
from whvi.predictive.chunks import default_rows, kept_rows
from whvi.predictive.sources import FEW, Source, vary
from whvi.predictive.state import Snapshot, evaluating
from whvi.rows import Inputs

GROUP = Source.group
"""Number of draws that are evaluated at once."""


class Group(NamedTuple):
    """Some of the functions at a chunk of rows."""

    f: Tensor
    """(functions, rows, features), in float32 or float64."""
    likelihood: Likelihood | None
    """Of these functions."""


Reduce = Callable[[slice, Iterator[Group]], tuple[Tensor, ...]]
"""Maps a chunk of rows and its groups to tensors (rows, ...)."""


class _UncertainError(Exception):
    """The module draws random numbers besides those of its Bayesian layers."""


class Functions:
    """S functions at N rows.

    Args:
        source: where they come from.
        x: (N, ...), one tensor or several.
        draws: "batch", a draw of weights for each function, or "example", one for each function and row.
        batch_rows: rows in a chunk; default what suits the caches.
        seed: of everything that is drawn.
        snapshot: of model, x and likelihood as they must be; default as they are when functions are evaluated first.

    Law: with "batch", group k is what the block k of ``whvi.sampling(model, GROUP, generator)`` gives, for a
    generator that starts from the seed; where functions are evaluated one by one, function i of the group has the seeds
    of the block plus i.
    """

    def __init__(
        self,
        source: Source,
        x: Inputs,
        draws: str,
        batch_rows: int | None,
        seed: int,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.source, self.x, self.count, self.draws, self.seed = source, x, source.count(), draws, seed
        self.likelihood = source.likelihood(range(self.count))
        self.rows, self.device = of.count(x), of.device(x)
        self.batch_rows = batch_rows or default_rows(source.architecture, x, source.held())
        self._given_rows, self._watched = batch_rows is not None, False
        self.snapshot = snapshot
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
        if self.snapshot is None:
            self.snapshot = self._snapshot()
        else:
            self.snapshot.check()
        while True:
            try:
                found = self._run(reduce, self.count if count is None else count, rows or self.batch_rows)
            except PartsError:
                if not self.source.separate():
                    raise
            except _UncertainError:
                self._announce()
            else:
                self.snapshot.settle()
                return found

    def whole_rows(self, numbers: int) -> int:
        """Rows in a chunk for what needs all functions of a row at once, where each gives so many numbers for it."""
        fixed = self._given_rows or self.draws == "example"
        return self.batch_rows if fixed else min(self.batch_rows, kept_rows(self.count, numbers))

    def _run(self, reduce: Reduce, count: int, batch_rows: int) -> tuple[Tensor, ...]:
        x = self._rows()
        rows = of.count(x)
        size = self.source.group
        groups = [range(start, min(start + size, count)) for start in range(0, count, size)]
        seeds = seeds_from(self.seed, (len(groups), len(self.source.layers))).to(self.device)
        found: list[Tensor] = []
        with torch.no_grad(), evaluating(self.source.module):
            starts = range(0, rows, batch_rows)
            for start, key in zip(starts, self._keys(len(starts)), strict=True):
                chunk = slice(start, min(start + batch_rows, rows))
                parts = reduce(chunk, self._groups(of.take(x, chunk), groups, seeds + key, start))
                found = found or [part.new_empty((rows, *part.shape[1:])) for part in parts]
                for whole, part in zip(found, parts, strict=True):
                    whole[chunk] = part
        return tuple(whole[: self.rows] for whole in found)

    def _groups(self, x: Inputs, groups: list[range], seeds: Tensor, start: int) -> Iterator[Group]:
        outputs = self.source.outputs(x, groups, seeds, self.draws)
        for group in groups:
            f = self._next(outputs, x, seeds) if self.source.certain else self._seeded(outputs, start, group)
            likelihood = self.source.likelihood(group)
            if likelihood is not None:
                _check_outputs(f.shape, likelihood)
                likelihood.check(f)
            yield Group(wide(f), likelihood)

    def _next(self, outputs: Iterator[Tensor], x: Inputs, seeds: Tensor) -> Tensor:
        """The next group; of the first one it is seen whether the module draws from torch's generator."""
        if self._watched:
            return next(outputs)
        before = _generator_state(self.device)
        f = next(outputs)
        if not torch.equal(before, _generator_state(self.device)):  # it may have been another thread
            few = of.take(x, slice(FEW))
            one, other = (next(self.source.outputs(few, [range(1)], seeds[:1], self.draws)) for _ in range(2))
            if vary(one, other):
                raise _UncertainError
        self._watched = True
        return f

    def _seeded(self, outputs: Iterator[Tensor], start: int, group: range) -> Tensor:
        """The next group of a module that draws from torch's generator, which is as it was afterwards."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            start_generators(mix(self.seed, "own draws", start, group.start))
            return next(outputs)

    def _announce(self) -> None:
        """Say that the module draws, and take each of its functions for one of many."""
        warn_caller(
            f"{type(self.source.module).__name__} draws random numbers of its own (torch.randn, or dropout that is on "
            "in eval mode), which are no draws of a Bayesian layer: each function draws anew for each row, and their "
            "spread is counted as epistemic; move noise of the target to the likelihood",
            UserWarning,
        )
        self.source.certain = False
        self.count = self.source.count()
        if not self._given_rows:
            self.batch_rows = default_rows(self.source.architecture, self.x, self.source.held())

    def _snapshot(self) -> Snapshot:
        parts: dict[str, nn.Module | Inputs] = {"the model": self.source.module, "x": self.x}
        return Snapshot(parts if self.source.given is None else {**parts, "the likelihood": self.source.given})

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


def _generator_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _check_outputs(shape: torch.Size, likelihood: Likelihood) -> None:
    if len(shape) < 3:
        how = "let the model end with unsqueeze(-1)" if likelihood.features == 1 else "give the model that many outputs"
        raise ShapeError(
            f"the model gives ({shape[-1]},), one number for each row and no axis of features, but "
            f"{type(likelihood).__name__} takes (rows, {likelihood.features}); {how}"
        )
