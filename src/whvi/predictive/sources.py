"""What functions come from: draws of one model, or the members of an ensemble."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any

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
from whvi.predictive.handed import Handed
from whvi.predictive.kept import keeps_rows
from whvi.rows import Inputs

DEFAULT_SAMPLES = 64
"""Functions that are drawn where nothing else was said."""
FEW = 3
"""Rows at which functions are compared."""
_PROBE = 3, 7
"""Functions and rows of a pass that tells whether layers see rows, where these are too few: 16 is the length of many
things, 3 x 7 of few, and of both hardly any."""


class Source(ABC):
    """What functions come from."""

    module: nn.Module
    architecture: nn.Module
    """The module that maps rows to rows."""
    layers: list[BayesianLayer]
    given: Likelihood | None
    """The likelihood of all functions, where it is one."""
    certain = True
    """Nothing is drawn but by Bayesian layers, as far as that is known."""
    group = 16
    """Functions that are evaluated at once. It is fixed, so that a function depends on the seed alone."""

    @abstractmethod
    def count(self) -> int:
        """How many functions there are to evaluate."""

    def held(self) -> int:
        """How many times an activation for the rows of a chunk is there at once."""
        return min(self.count(), self.group)

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
        self._together, self._probed = True, keeps_rows(model)

    def count(self) -> int:
        """A model without Bayesian layers is one function, unless it draws in another way."""
        return self.samples if self.layers or not self.certain else 1

    def outputs(self, x: Inputs, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """The batch, repeated for each function of a group; or function by function, each with a seed of its own."""
        rows, example = of.count(x), draws == "example"
        alone, batch, each = Handed(partial(of.mapped, torch.clone, x)), None, 0
        for group, own in zip(groups, seeds.unbind(), strict=True):
            size = len(group)
            if not (self._together and self.layers) or size == 1:
                yield torch.stack([self._pass(alone(), own + i, None if example else (), 1) for i in range(size)])
                continue
            wanted = rows if example or self._probed else self._probe(x, size, own)
            if batch is None or wanted != each:
                batch, each = Handed(partial(_repeated, x, wanted, size)), wanted
            shape, counted = (None, size * each) if example else ((size,), each)
            y = self._pass(of.take(batch(), slice(size * each)), own, shape, counted).unflatten(0, (size, each))
            if not (self._probed or example) and self.certain:
                self._check_first(x, y, own)
            self._probed = True
            yield y[:, :rows]

    def _probe(self, x: Inputs, size: int, seeds: Tensor) -> int:
        """Rows of the first pass: an odd number, so that powers of two are not mistaken for rows of 16 functions."""
        functions, rows = min(size, _PROBE[0]), _PROBE[1]
        if of.count(x) >= rows:
            return of.count(x) | 1
        self._pass(_repeated(x, rows, functions), seeds, (functions,), rows)
        return of.count(x)

    def _check_first(self, x: Inputs, y: Tensor, seeds: Tensor) -> None:
        """PartsError if the first function of a group is another one alone, at a few rows: then parts of a batch were
        taken for functions that are none, as where positions come before rows."""
        few = Handed(partial(of.mapped, torch.clone, of.take(x, slice(FEW))))
        alone = self._pass(few(), seeds, (), 1)
        if _differ(alone, y[:, :FEW]) and not vary(alone, self._pass(few(), seeds, (), 1)):
            raise PartsError("the first axis of a layer's input does not begin with the rows")

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
        given = Handed(partial(of.mapped, torch.clone, x))
        for group, own in zip(groups, seeds.unbind(), strict=True):
            each = own + torch.arange(len(group), device=own.device).unsqueeze(-1)
            y = self.ensemble.functions(given(), self._of(group), seeds=each, draws=draws)
            _check_rows(y.shape[1:], of.count(x))
            yield y

    def likelihood(self, functions: range) -> Likelihood | None:
        """One for all, or each its own."""
        return self.ensemble.likelihood(self._of(functions)) if self.given is None else self.given

    def _of(self, functions: range) -> list[int]:
        return [self.order[function % len(self.order)] for function in functions]


def _repeated(x: Inputs, rows: int, times: int) -> Any:
    """x with so many rows, some of them again if it has fewer, and all that several times: (times * rows, ...)."""
    return of.repeated(of.filled_up(x, rows), times)


def _check_rows(shape: torch.Size, rows: int) -> None:
    if not shape or shape[0] != rows:
        raise ShapeError(
            f"the model gives {tuple(shape)} for {rows} rows; its output must have one row for each input row"
        )


def vary(one: Tensor, other: Tensor) -> bool:
    """Whether two passes with the same draws are not the same, by more than rounding."""
    return not torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)


def _differ(one: Tensor, functions: Tensor) -> bool:
    """Whether a function is another than the first of several, by more than rounding: (rows, ...), (S, rows, ...).

    The measure is how far the functions are apart: parts of a batch that were taken for functions are off by as much.
    """
    one, functions = one.double(), functions.double()
    first = functions[0]
    off, apart = (one - first).abs(), (functions - first).abs()
    rounding = 100 * torch.finfo(torch.float32).eps * first.abs().amax()
    return bool((off.amax() > 0.05 * apart.amax()) & (off.amax() > rounding))
