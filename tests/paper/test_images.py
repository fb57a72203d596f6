"""Images for a network: what augmentation may do to them, and what it may not."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from whvi.errors import ArgumentError, WhviError
from whvi.inference import fit
from whvi.likelihoods import Categorical
from whvi_paper.data import load
from whvi_paper.images.augmentation import Augment, Standardise

AS_THEY_ARE = {"mean": (0.0, 0.0, 0.0), "std": (1 / 255, 1 / 255, 1 / 255)}
"""Settings under which pixels keep their numbers."""


def pixels(count: int = 6, height: int = 32, width: int = 32) -> Tensor:
    return torch.randint(256, (count, 3, height, width), dtype=torch.uint8)


def whole(values: Tensor) -> Tensor:
    """uint8 again."""
    torch.testing.assert_close(values, values.round(), atol=1e-3, rtol=0)
    return values.round().to(torch.uint8)


@pytest.mark.parametrize("transform", [Standardise(), Augment(), Augment(side=16)])
def test_what_comes_out_is_ready_for_convolution(transform: Standardise) -> None:
    images = pixels()
    before = images.clone()
    found = transform(images)
    side = transform.side or images.shape[-1]
    assert (found.shape, found.dtype) == ((*images.shape[:2], side, side), torch.float32)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, before)


def test_standardised_by_channel() -> None:
    """(pixel / 255 - mean) / std; with the set's own numbers, mean 0 and variance 1."""
    images = torch.from_numpy(load("synthetic-images").x)
    shares = images.double() / 255
    mean, std = shares.mean((0, 2, 3)), shares.std((0, 2, 3), correction=0)
    found = Standardise(tuple(mean.tolist()), tuple(std.tolist()))(images).double()
    torch.testing.assert_close(found, (shares - mean[:, None, None]) / std[:, None, None], atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std((0, 2, 3)), torch.ones(3, dtype=torch.float64), atol=1e-4, rtol=0)


def test_a_shrunk_image_has_the_means_of_areas() -> None:
    images = pixels()
    means = Standardise()(images).unflatten(2, (8, 4)).unflatten(4, (8, 4)).mean((3, 5))
    torch.testing.assert_close(Standardise(side=8)(images), means)


def test_without_a_shift_an_image_or_its_mirror_image() -> None:
    images = pixels(64)
    found = whole(Augment(shift=0, **AS_THEY_ARE)(images))
    same = (found == images).flatten(1).all(1)
    mirrored = (found == images.flip(3)).flatten(1).all(1)
    assert (same ^ mirrored).all()
    assert 16 < same.sum() < 48
    assert torch.equal(whole(Augment(shift=0, flip=False, **AS_THEY_ARE)(images)), images)


def test_a_shifted_image_is_a_part_of_the_reflected_one() -> None:
    """Compared with all parts of the padded image and of its mirror image; each of them has its turn."""
    image, shift = pixels(1, 5, 6), 2
    padded = pad(image.float(), (shift,) * 4, mode="reflect").to(torch.uint8)[0]
    parts = [padded[:, i : i + 5, j : j + 6] for i in range(5) for j in range(5)]
    candidates = torch.stack([*parts, *(part.flip(2) for part in parts)]).flatten(1)
    found = whole(Augment(shift=shift, **AS_THEY_ARE)(image.expand(1000, -1, -1, -1))).flatten(1)
    matches = (found[:, None] == candidates).all(2)
    assert (matches.sum(1) == 1).all()
    assert matches.any(0).all()


def test_draws_come_from_torchs_generator() -> None:
    images, augment = pixels(), Augment()

    def under(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return augment(images)

    assert torch.equal(under(1), under(1))
    assert not torch.equal(under(1), under(2))


@pytest.mark.parametrize("transform", [Standardise(), Augment()])
def test_images_stay_on_their_device(transform: Standardise) -> None:
    found = transform(pixels().to("meta"))
    assert (found.device.type, found.shape) == ("meta", (6, 3, 32, 32))


def test_a_set_without_images_is_told_before_one_is_transformed() -> None:
    def transform(images: Tensor) -> Tensor:
        raise AssertionError("there is nothing to transform")

    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    with pytest.raises(ArgumentError, match="no rows"):
        fit(model, Categorical(10), (pixels(0), torch.zeros(0).long()), steps=1, transform=transform)


@pytest.mark.parametrize(
    ("settings", "images", "message"),
    [
        ({"shift": 32}, pixels(), "shift is 32, but must be less than the 32 pixels of a line"),
        ({}, pixels().float(), "dtype torch.float32, but must be torch.uint8"),
        ({}, pixels()[0], r"shape \(3, 32, 32\), but must be \(N, 3, height, width\)"),
        ({}, pixels().permute(0, 2, 3, 1), r"shape \(6, 32, 32, 3\), but must be"),
    ],
)
def test_what_are_no_images_is_refused(settings: dict[str, int], images: Tensor, message: str) -> None:
    with pytest.raises(WhviError, match=message):
        Augment(**settings)(images)  # type: ignore[arg-type]


def test_bad_settings_are_named() -> None:
    for shift in (-1, 1.5):
        with pytest.raises(WhviError, match="shift"):
            Augment(shift=shift)  # type: ignore[arg-type]
    for transform in (Standardise, Augment):
        with pytest.raises(WhviError, match="side"):
            transform(side=0)
