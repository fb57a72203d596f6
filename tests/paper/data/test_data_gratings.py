"""Synthetic images: the format of CIFAR-10, and classes that can be told apart but not at a glance."""

import numpy as np

from whvi_paper.data import DATASETS, load
from whvi_paper.data.gratings import Gratings


def test_it_is_loaded_like_cifar10() -> None:
    data = load("synthetic-images")
    DATASETS["synthetic-images"].check(data.x, data.y)
    assert (data.x.shape, data.x.dtype, data.y.dtype) == ((240, 3, 32, 32), np.uint8, np.int64)
    assert data.task == DATASETS["cifar10"].task
    assert len(data.class_names) == len(set(data.class_names)) == 10
    assert np.bincount(data.y[:200]).tolist() == [20] * 10
    assert data.sha256 == load("synthetic-images").sha256
    assert not (Gratings().data(240, seed=1)[0] == data.x).all()


def test_a_class_has_its_direction_and_its_hue() -> None:
    """Means along the stripes have the phase; of their size only class 0 ... 9 is left, whatever the phase."""
    x, y = Gratings(noise=0.0).data(240)
    centred = x.astype(float) - 128
    down, across = centred.mean(3).std(2), centred.mean(2).std(2)  # (N, 3) each
    assert ((down.max(1) > across.max(1)) == (y < 5)).all()
    sizes = np.where((y < 5)[:, None], down, across) * np.sqrt(2) / 80
    wanted = np.abs(np.cos(np.pi * (y % 5)[:, None] / 5 + 2 * np.pi * np.arange(3) / 3))
    np.testing.assert_allclose(sizes, wanted, atol=0.02)


def test_a_mirror_image_is_of_the_same_class() -> None:
    """The two have the same waves at other phases, which would not hold for stripes that lie askew."""
    x = Gratings(noise=0.0).data(20)[0].astype(float)
    np.testing.assert_allclose(np.abs(np.fft.fft2(x[..., ::-1])), np.abs(np.fft.fft2(x)), rtol=1e-6, atol=1e-6)
