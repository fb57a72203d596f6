"""Batches are functions of seed and step, and all rows get their turn."""

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from whvi.errors import WhviError
from whvi.inference.batches import RowStream, StackedBatches, TensorBatches
from whvi.inference.loaders import LoaderBatches
from whvi.likelihoods import Gaussian

X = torch.arange(20.0).unsqueeze(-1)
DATA = X, X


@pytest.mark.parametrize(("rows", "size"), [(20, 5), (20, 7), (7, 3), (3, 2)])
def test_whole_passes_see_every_row_equally_often(rows: int, size: int) -> None:
    stream = RowStream(rows, size, seed=1)
    seen = torch.cat([stream.at(step) for step in range(rows)])  # size passes
    assert torch.equal(seen.bincount(), torch.full((rows,), size))
    for start in range(0, rows * size, rows):
        assert sorted(seen[start : start + rows].tolist()) == list(range(rows))


def test_a_step_is_the_same_whenever_it_is_asked_for() -> None:
    straight = [RowStream(20, 7, seed=1).at(step) for step in range(12)]
    stream = RowStream(20, 7, seed=1)
    for step in (11, 3, 4, 0, 11):
        assert torch.equal(stream.at(step), straight[step])
    assert not torch.equal(RowStream(20, 7, seed=2).at(0), straight[0])


def test_few_rows_are_one_batch() -> None:
    x, y = TensorBatches(*DATA, Gaussian(), 64, seed=0).at(3)
    assert torch.equal(x, X)
    assert torch.equal(y, X)


def test_replicas_have_the_batches_they_would_have_alone() -> None:
    parts = [(X, X), (X[:13] + 100, X[:13]), (X[3:] + 200, X[3:])]
    stacked = StackedBatches(parts, Gaussian(), 6, seeds=[4, 5, 6])
    alone = [TensorBatches(*part, Gaussian(), 6, seed) for part, seed in zip(parts, (4, 5, 6), strict=True)]
    assert stacked.counts.tolist() == [20, 13, 17]
    for step in range(10):
        x, y = stacked.at(step)
        for r, batches in enumerate(alone):
            expected = batches.at(step)
            assert torch.equal(x[r], expected[0])
            assert torch.equal(y[r], expected[1])


def test_data_that_replicas_share_is_there_once() -> None:
    """As in a deep ensemble; and that changes neither batches nor what a checkpoint is checked by."""
    shared, apart = [DATA, (X[:7], X[:7]), DATA], [(X.clone(), X.clone()), (X[:7], X[:7]), DATA]
    one, other = (StackedBatches(data, Gaussian(), 6, seeds=[4, 5, 6]) for data in (shared, apart))
    assert (len(one.x), len(other.x)) == (27, 47)
    assert one.identity() == other.identity()
    for step in range(5):
        assert all(torch.equal(a, b) for a, b in zip(one.at(step), other.at(step), strict=True))


@pytest.mark.parametrize("generator", [None, torch.Generator()])
def test_a_loader_repeats_its_passes(generator: torch.Generator | None) -> None:
    def batches() -> LoaderBatches:
        loader = DataLoader(TensorDataset(*DATA), batch_size=6, shuffle=True, generator=generator)
        return LoaderBatches(loader, Gaussian(), None, seed=3)

    first = batches()
    assert first.n_data == 20
    straight = [first.at(step)[0].clone() for step in range(10)]
    torch.rand(3)
    late = batches()  # as a run that is resumed
    for step in range(5, 10):
        assert torch.equal(late.at(step)[0], straight[step])
    assert not torch.equal(straight[0], straight[4])  # another pass, another order
    with pytest.raises(WhviError, match="cannot go back"):
        late.at(2)


def test_a_sampler_of_batches_repeats_its_passes() -> None:
    """Also where it draws from a generator that the loader does not know of."""
    generator = torch.Generator()

    def batches() -> LoaderBatches:
        sampler = BatchSampler(RandomSampler(X, generator=generator), 6, drop_last=False)
        return LoaderBatches(DataLoader(TensorDataset(*DATA), batch_sampler=sampler), Gaussian(), None, seed=3)

    first, again = batches(), batches()
    straight = [first.at(step)[0].clone() for step in range(8)]
    assert all(torch.equal(again.at(step)[0], straight[step]) for step in range(8))


class Endless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([(X[0], X[0])] * 4)


def test_a_loader_without_a_length_needs_one() -> None:
    loader = DataLoader(Endless(), batch_size=2)
    with pytest.raises(WhviError, match="pass n_data"):
        LoaderBatches(loader, Gaussian(), None, seed=0)
    assert LoaderBatches(loader, Gaussian(), 100, seed=0).at(5)[0].shape == (2, 1)


def test_bad_loaders_are_explained() -> None:
    def first(loader: DataLoader, n_data: int | None = None) -> None:  # type: ignore[type-arg]
        LoaderBatches(loader, Gaussian(), n_data, seed=0).at(0)

    with pytest.raises(WhviError, match="pair"):
        first(DataLoader(X))
    with pytest.raises(WhviError, match="no batch"):
        first(DataLoader(TensorDataset(*DATA), batch_size=64, drop_last=True))
    with pytest.raises(WhviError, match="n_data is 3"):
        first(DataLoader(TensorDataset(*DATA), batch_size=6), n_data=3)
    part = DistributedSampler(TensorDataset(*DATA), num_replicas=2, rank=0)
    with pytest.raises(WhviError, match="fit splits each batch among the processes itself"):
        first(DataLoader(TensorDataset(*DATA), batch_size=6, sampler=part), n_data=20)


@pytest.mark.parametrize(
    ("sampler", "rows"),
    [
        (SubsetRandomSampler(range(10)), 10),
        (RandomSampler(range(100), num_samples=30), 100),
        (SequentialSampler(range(100)), 100),
        (WeightedRandomSampler([1.0] * 100, 100), 100),
    ],
)
def test_rows_are_those_of_the_sampler(sampler: Sampler[int], rows: int) -> None:
    data = TensorDataset(torch.zeros(100, 1), torch.zeros(100, 1))
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    assert LoaderBatches(loader, Gaussian(), None, 0).n_data == rows
    batches = DataLoader(data, batch_sampler=BatchSampler(sampler, 5, drop_last=False))
    assert LoaderBatches(batches, Gaussian(), None, 0).n_data == rows


def test_a_sampler_that_may_mean_anything_needs_n_data() -> None:
    data = TensorDataset(torch.zeros(100, 1), torch.zeros(100, 1))
    loader = DataLoader(data, batch_size=5, sampler=WeightedRandomSampler([1.0] * 100, 30))
    with pytest.raises(WhviError, match="a WeightedRandomSampler, gives 30 of 100 rows; pass n_data"):
        LoaderBatches(loader, Gaussian(), None, 0)
    assert LoaderBatches(loader, Gaussian(), 100, 0).n_data == 100
