"""Images of another kind, against plain references."""

import numpy as np
import pytest
import torch
from torch import Tensor

from whvi_paper.images.shifts import SHIFTS, blurred, faded, noise, rotated, speckled


def pixels(count: int = 8, size: int = 9) -> Tensor:
    return torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=generator(99))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", SHIFTS)
def test_images_stay_images_and_a_seed_repeats_them(name: str) -> None:
    images = pixels()
    before = images.clone()
    found = SHIFTS[name](images, generator())
    assert (found.shape, found.dtype) == (images.shape, torch.uint8)
    assert torch.equal(images, before)
    assert not torch.equal(found, images)
    assert torch.equal(SHIFTS[name](images, generator()), found)
    drawn = name in ("noise", "rotated", "speckled")
    assert torch.equal(SHIFTS[name](images, generator(1)), found) != drawn


def test_noise_knows_nothing_of_the_image() -> None:
    images = pixels(200)
    found = noise(images, generator())
    assert torch.equal(noise(255 - images, generator()), found)
    assert set(found.unique().tolist()) == set(range(256))
    assert float(found.float().mean()) == pytest.approx(127.5, abs=2)


def test_rotations_are_all_but_none() -> None:
    images = pixels(60)
    found = rotated(images, generator())
    turns = [
        [turn for turn in range(4) if np.array_equal(after, np.rot90(before, turn, (1, 2)))]
        for before, after in zip(images.numpy(), found.numpy(), strict=True)
    ]
    assert {turn for (turn,) in turns} == {1, 2, 3}


def test_speckles_have_their_size_and_stay_within_the_range() -> None:
    grey = torch.full((20, 3, 16, 16), 128, dtype=torch.uint8)
    difference = speckled(grey, generator()).double() - 128
    assert abs(float(difference.mean())) < 2
    # Clipping at 2.5 standard deviations takes about 1 % off.
    assert float(difference.std()) == pytest.approx(51, rel=0.04)
    white = speckled(torch.full_like(grey, 255), generator())
    assert float((white == 255).float().mean()) == pytest.approx(0.5, abs=0.03)


def test_blur_is_the_mean_of_the_neighbours_there_are() -> None:
    image = pixels(1)
    found = blurred(image, generator())[0].numpy()
    values = image[0].double().numpy()
    for i in range(9):
        for j in range(9):
            part = values[:, max(0, i - 2) : i + 3, max(0, j - 2) : j + 3]
            np.testing.assert_allclose(found[:, i, j], part.mean((1, 2)), atol=0.501)


def test_fading_keeps_the_mean_and_a_quarter_of_the_contrast() -> None:
    images = pixels()
    before, after = images.double(), faded(images, generator()).double()
    mean = before.mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(after - mean, (before - mean) / 4, atol=0.501, rtol=0)
