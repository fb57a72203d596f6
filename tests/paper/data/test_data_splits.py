"""Splits and scaling."""

import dataclasses

import numpy as np
import pytest
import torch

from whvi.errors import ArgumentError
from whvi_paper.data import DatasetKind, LoadedDataset, split

ROWS = 5000


@pytest.fixture
def data() -> LoadedDataset:
    generator = np.random.default_rng(7)
    x = generator.normal(size=(ROWS, 4)) * [1, 1e-6, 1e4, 0] + [0, 5, -3e5, 288.15]
    return LoadedDataset("small", DatasetKind.REGRESSION, x, x[:, :2].copy(), tuple("abcd"), tuple("uv"), (), "")


def test_rows_are_those_of_the_seeded_permutation(data: LoadedDataset) -> None:
    rows = np.random.default_rng(3).permutation(ROWS)
    parts = split(data, 3)
    assert torch.equal(parts.train[1], torch.from_numpy(data.y[rows[:4500]]))
    assert torch.equal(parts.test[1], torch.from_numpy(data.y[rows[4500:]]))
    assert parts.train[0].dtype == torch.float32
    assert parts.train[1].dtype == torch.float64
    assert not torch.equal(split(data, 4).test[1], parts.test[1])


def test_training_rows_have_mean_0_and_std_1_and_constants_are_0(data: LoadedDataset) -> None:
    x = split(data, 0).train[0].double()
    torch.testing.assert_close(x.mean(0), torch.zeros(4, dtype=torch.float64), atol=1e-6, rtol=0)
    wanted = torch.tensor([1, 1, 1, 0], dtype=torch.float64)
    torch.testing.assert_close(x.std(0, correction=0), wanted, atol=1e-6, rtol=0)


def test_test_rows_are_scaled_by_the_training_rows(data: LoadedDataset) -> None:
    rows = np.random.default_rng(0).permutation(ROWS)
    train, test = data.x[rows[:4500]], data.x[rows[4500:]]
    expected = (test - train.mean(0))[:, :3] / train.std(0)[:3]
    torch.testing.assert_close(split(data, 0).test[0][:, :3], torch.from_numpy(expected).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scaling", ["standard", "clipped"])
def test_training_part_does_not_know_the_test_rows(data: LoadedDataset, scaling: str) -> None:
    rows = np.random.default_rng(2).permutation(ROWS)
    other = data.x.copy()
    other[rows[4500:]] = 1e9
    changed = dataclasses.replace(data, x=other)
    assert torch.equal(split(changed, 2, scaling).train[0], split(data, 2, scaling).train[0])


def test_clipping_survives_a_broken_reading(data: LoadedDataset) -> None:
    rows = np.random.default_rng(0).permutation(ROWS)
    x = data.x.copy()
    x[rows[[0, 4550]], 0] = 7e5
    broken = dataclasses.replace(data, x=x)
    clipped, standard = split(broken, 0, "clipped"), split(broken, 0)
    assert standard.train[0][1:, 0].std() < 1e-3
    assert clipped.train[0][1:, 0].std() > 0.9
    assert clipped.train[0][0, 0] == clipped.test[0][50, 0] == clipped.train[0][:, 0].max()


def test_standard_scaling_clips_nothing(data: LoadedDataset) -> None:
    rows = np.random.default_rng(0).permutation(ROWS)
    x = data.x.copy()
    x[rows[4550], 0] = 50.0
    assert split(dataclasses.replace(data, x=x), 0).test[0][50, 0] > 40


def test_classes_stay_whole_numbers(data: LoadedDataset) -> None:
    y = np.arange(ROWS) % 3
    part = split(dataclasses.replace(data, task=DatasetKind.CLASSIFICATION, y=y), 0)
    assert part.test[1].dtype == torch.int64
    assert part.test[1].shape == (500,)


def test_mistakes_are_named(data: LoadedDataset) -> None:
    with pytest.raises(ArgumentError, match=r"-1 is negative; use 0"):
        split(data, -1)
    with pytest.raises(ArgumentError, match="'robust' is unknown; use one of: standard, clipped"):
        split(data, 0, "robust")
    with pytest.raises(ArgumentError, match="has fixed splits"):
        split(dataclasses.replace(data, task=DatasetKind.IMAGES), 0)
