"""Batches from a DataLoader."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler, SubsetRandomSampler

from whvi import rows as of
from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.inference.batches import Batches, split
from whvi.inference.elbo import check_rows
from whvi.inference.seeds import mix, start_generators
from whvi.likelihoods import Likelihood
from whvi.rows import Inputs


class LoaderBatches(Batches):
    """The batches of a DataLoader, pass after pass. Each pass is seeded by its number, so it is reproducible.

    Draws of persistent workers are the exception: torch seeds their generators once.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        likelihood: Likelihood,
        n_data: int | None,
        seed: int,
        target: str | int | None = None,
    ) -> None:
        self.loader, self.likelihood, self.seed, self.target = loader, likelihood, seed, target
        if isinstance(sampler_of(loader), DistributedSampler):
            raise ArgumentError(
                "the DataLoader has a DistributedSampler, which gives this process a part of the rows; with "
                "Distributed() fit splits each batch among the processes itself: give each the whole data, "
                "with shuffle=True or another sampler"
            )
        if n_data is None:
            n_data = rows_of(loader)
            if n_data == 0:
                raise ArgumentError("the DataLoader has no rows; give at least one example")
        self.n_data, self.rows = whole_number("n_data", n_data), loader.batch_size
        self._next = 0
        self._batches: Iterator[Any] = iter(())

    def at(self, step: int) -> tuple[Inputs, Tensor]:
        """The next batch; batches before the first requested step are skipped."""
        if step < self._next:
            raise ArgumentError(f"step {step} is over; a DataLoader cannot go back")
        if self._next == 0:
            self._next, self._batches = self._stream_to(step)
        batch: Any = None
        while self._next <= step:
            batch = next(self._batches)
            self._next += 1
        x, y = split("a batch of the DataLoader", batch, self.target)
        check_rows(x, y)
        if len(y) > self.n_data:
            raise ArgumentError(f"a batch has {len(y)} rows, but n_data is {self.n_data}")
        if self.loader.batch_size is None:  # what the dataset itself holds, perhaps
            x = of.mapped(torch.clone, x)
        return x, self.likelihood.targets(y)

    def identity(self) -> dict[str, Any]:
        """The number of rows and the batch size; the rows themselves are unknown before they are loaded."""
        return {"n_data": self.n_data, "batch_size": self.loader.batch_size}

    def _stream_to(self, step: int) -> tuple[int, Iterator[Any]]:
        """Batches from the start of the pass that contains a step, if passes have a known length."""
        try:
            length = len(self.loader)
        except TypeError:
            length = 0
        passes = step // length if length else 0
        return passes * length, self._stream(passes)

    def _stream(self, epoch: int) -> Iterator[Any]:
        while True:
            seed = mix(self.seed, "pass", epoch)
            for source in (self.loader, self.loader.sampler, self.loader.batch_sampler, sampler_of(self.loader)):
                if (generator := getattr(source, "generator", None)) is not None:
                    generator.manual_seed(seed)
            start_generators(seed)
            count, batches = 0, iter(self.loader)
            while True:
                start_generators(mix(seed, count))  # a dataset may draw, as augmentation does
                batch = next(batches, None)
                if batch is None:
                    break
                count += 1
                yield batch
            if count == 0:
                raise ArgumentError("the DataLoader returned no batch; check drop_last")
            epoch += 1


def rows_of(loader: "DataLoader[Any]") -> int:
    """N: the rows that passes over a loader are about, those of its dataset or of the subset of its sampler.

    >>> from torch.utils.data import DataLoader, SubsetRandomSampler
    >>> rows_of(DataLoader(list(range(100)), sampler=SubsetRandomSampler(range(10))))
    10
    """
    try:
        rows = len(loader.dataset)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError("this DataLoader has no length; pass n_data, the number of training rows") from None
    sampler = sampler_of(loader)
    if isinstance(sampler, SubsetRandomSampler):
        return len(sampler)
    whole = (SequentialSampler, RandomSampler)  # a pass may be shorter, but is of all rows
    if isinstance(sampler, whole) or not hasattr(sampler, "__len__") or len(sampler) == rows:
        return rows
    raise ArgumentError(
        f"the sampler of this DataLoader, a {type(sampler).__name__}, gives {len(sampler)} of {rows} rows; "
        "pass n_data, the number of training rows"
    )


def sampler_of(loader: "DataLoader[Any]") -> Any:
    """The sampler of rows, also if it is wrapped in a batch sampler."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)
