"""The rows of a step: a function of the seed and the step, so that a run can resume at any step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from whvi import rows as of
from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.elbo import check_rows
from whvi.inference.seeds import mix, start_generators
from whvi.likelihoods import Likelihood
from whvi.rows import Inputs

Transform = Callable[[Any], Any]
"""Maps the stored inputs of a batch to inputs of the model; it may draw random numbers, as augmentation does."""
TARGET = "labels"
"""The default key of the targets in a mapping, as in collators of Hugging Face."""


class Batches(ABC):
    """The minibatches of a run."""

    n_data: int
    """Rows of the whole dataset."""
    rows: int | None
    """Rows of a step, over all replicas; None if unknown."""

    @abstractmethod
    def at(self, step: int) -> tuple[Inputs, Tensor]:
        """Inputs and checked targets of a step. Calls must have increasing steps, from any step on."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What identifies the data, as JSON."""


class RowStream:
    """An infinite stream of row indices: all N in random order, then all N in another order, and so on.

    Every batch has the same size, and after a whole number of passes every row was used equally often. With
    ``replacement`` each row of a batch is drawn from all N rows instead.
    """

    def __init__(self, rows: int, batch_size: int, seed: int, replacement: bool = False) -> None:
        self.rows, self.seed, self.replacement = rows, seed, replacement
        self.batch_size = min(batch_size, rows)
        self._orders: dict[int, Tensor] = {}

    def at(self, step: int) -> Tensor | None:
        """Row indices of a step, (batch_size,); None means all rows, if they are one batch."""
        if self.batch_size == self.rows:
            return None
        if self.replacement:
            generator = torch.Generator().manual_seed(mix(self.seed, "rows", step))
            return torch.randint(self.rows, (self.batch_size,), generator=generator)
        start = step * self.batch_size
        epoch, place = divmod(start, self.rows)
        first = self._order(epoch)[place : place + self.batch_size]
        if len(first) == self.batch_size:
            return first
        return torch.cat([first, self._order(epoch + 1)[: self.batch_size - len(first)]])

    def _order(self, epoch: int) -> Tensor:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            generator = torch.Generator().manual_seed(mix(self.seed, "rows", epoch))
            self._orders[epoch] = torch.randperm(self.rows, generator=generator)
        return self._orders[epoch]


class TensorBatches(Batches):
    """Minibatches of tensors in memory. The random numbers of a ``transform`` are seeded by the step."""

    def __init__(
        self,
        x: Inputs,
        y: Tensor,
        likelihood: Likelihood,
        batch_size: int,
        seed: int,
        replacement: bool = False,
        transform: Transform | None = None,
    ) -> None:
        check_rows(x, y)
        self.x, self.y = x, likelihood.targets(y)
        self.n_data = of.count(x)
        self.seed, self.transform = seed, transform
        self.stream = RowStream(self.n_data, whole_number("batch_size", batch_size), seed, replacement)
        self.rows = self.stream.batch_size

    def at(self, step: int) -> tuple[Inputs, Tensor]:
        """``batch_size`` rows, or all of them."""
        rows = self.stream.at(step)
        if rows is None:  # a copy, as the model may write into what it is given
            x, y = of.mapped(torch.clone, self.x), self.y
        else:
            x, y = of.take(self.x, rows), self.y[rows]
        if self.transform is not None:
            start_generators(mix(self.seed, "transform", step))
            x = self.transform(x)
        return x, y

    def identity(self) -> dict[str, Any]:
        """Rows and their hash."""
        return {"n_data": self.n_data, "batch_size": self.stream.batch_size, "sha256": digest(self.x, self.y)}


class StackedBatches(Batches):
    """A separate minibatch for each replica, from its own data, stacked: (R, batch_size, ...)."""

    def __init__(
        self,
        data: Sequence[tuple[Inputs, Tensor]],
        likelihood: Likelihood,
        batch_size: int,
        seeds: Sequence[int],
    ) -> None:
        places: dict[tuple[int, int], int] = {}
        self.parts: list[tuple[Inputs, Tensor]] = []
        """What several replicas have, as a deep ensemble has one dataset, is stored once."""
        for x, y in data:
            if (id(x), id(y)) not in places:
                check_rows(x, y)
                places[id(x), id(y)] = len(self.parts)
                self.parts.append((x, likelihood.targets(y)))
        self.places = [places[id(x), id(y)] for x, y in data]
        shapes = {str(of.form(part)) for part in self.parts}
        if len(shapes) > 1:
            raise ArgumentError(f"replicas need rows of one shape and dtype, got {sorted(shapes)}")
        lengths = [len(y) for _, y in data]
        self.n_data = lengths[0]
        self.counts = torch.tensor(lengths, dtype=torch.float64)
        size = min(whole_number("batch_size", batch_size), *lengths)
        self.rows = size * len(lengths)
        # One long table, so that a batch of all replicas is one lookup.
        self.x, self.y = of.joined(self.parts)
        begins = list(accumulate((len(y) for _, y in self.parts), initial=0))
        self.first = torch.tensor([begins[place] for place in self.places]).unsqueeze(-1)
        self.streams = [RowStream(n, size, seed) for n, seed in zip(lengths, seeds, strict=True)]
        self._all = torch.stack([torch.arange(size) for _ in lengths])

    def at(self, step: int) -> tuple[Inputs, Tensor]:
        """(R, batch_size, ...) of inputs and of targets."""
        chosen = [stream.at(step) for stream in self.streams]
        rows = torch.stack([self._all[r] if c is None else c for r, c in enumerate(chosen)]) + self.first
        return of.take(self.x, rows), self.y[rows]

    def identity(self) -> dict[str, Any]:
        """Rows and hashes of all."""
        hashes = [digest(*part) for part in self.parts]
        return {"batch_size": self.streams[0].batch_size, "sha256": [hashes[place] for place in self.places]}


def split(name: str, data: object, target: str | int | None = None) -> tuple[Inputs, Tensor]:
    """Inputs and targets of a pair (x, y), of a tuple (x1, x2, ..., y) or of a mapping, in the form that the model
    takes: see ``whvi.rows``.

    Args:
        name: the name of the data in errors.
        data: the argument of ``fit``.
        target: the key of the targets in a mapping, or their index in a tuple; default "labels", or the last element.

    >>> split("data", {"tokens": torch.zeros(2, 3), "labels": torch.ones(2)})
    ({'tokens': tensor([[0., 0., 0.],
            [0., 0., 0.]])}, tensor([1., 1.]))
    """
    if isinstance(data, Mapping):
        key = TARGET if target is None else target
        if key not in data or len(data) < 2:
            names = ", ".join(map(repr, data)) or "nothing"
            raise ArgumentError(
                f"{name} has {names}, but must have inputs and a target {key!r}; name the key of the target, target=..."
            )
        return {name: part for name, part in data.items() if name != key}, data[key]
    if not isinstance(data, tuple | list) or len(data) < 2:
        raise InputTypeError(
            f"{name} must be a pair (x, y), a tuple (x1, x2, ..., y) or a dict with a target, got {type(data).__name__}"
        )
    place = -1 if target is None else target
    if not isinstance(place, int) or not -len(data) <= place < len(data):
        raise ArgumentError(f"target is {place!r}, but {name} is a tuple of {len(data)}; give the place of the target")
    y = data[place]
    x = [part for i, part in enumerate(data) if i != place % len(data)]
    return x[0] if len(x) == 1 else tuple(x), y


def digest(*values: Inputs) -> str:
    """The sha256 of tensors, with their shapes and dtypes; of nested tensors also with their names."""
    found = sha256()
    for value in values:
        if not isinstance(value, Tensor):
            found.update(repr(of.form(value)).encode())
    for tensor in of.tensors(values):
        found.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
        found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()
