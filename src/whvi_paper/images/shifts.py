"""Images that a network was not trained for: noise, rotations, and corruptions of the images it was."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Shift = Callable[[Tensor, torch.Generator], Tensor]
"""uint8 (N, 3, H, W) -> the same."""


def noise(images: Tensor, generator: torch.Generator) -> Tensor:
    """Pixels drawn uniformly; nothing of the image is left."""
    return torch.randint(256, images.shape, generator=generator, dtype=torch.uint8)


def rotated(images: Tensor, generator: torch.Generator) -> Tensor:
    """Turned by a quarter, a half or three quarters."""
    turns = torch.randint(1, 4, (len(images),), generator=generator)
    found = images.clone()
    for quarter in (1, 2, 3):
        found[turns == quarter] = images[turns == quarter].rot90(quarter, (2, 3))
    return found


def speckled(images: Tensor, generator: torch.Generator) -> Tensor:
    """Gaussian noise with a fifth of the range as its standard deviation."""
    return _pixels(images + 51.0 * torch.randn(images.shape, generator=generator))


def blurred(images: Tensor, generator: torch.Generator) -> Tensor:
    """The mean of 5 x 5 pixels."""
    return _pixels(functional.avg_pool2d(images.float(), 5, 1, 2, count_include_pad=False))


def faded(images: Tensor, generator: torch.Generator) -> Tensor:
    """A quarter of the contrast."""
    mean = images.float().mean((1, 2, 3), keepdim=True)
    return _pixels(mean + (images - mean) / 4)


SHIFTS: dict[str, Shift] = {
    "noise": noise,
    "rotated": rotated,
    "speckled": speckled,
    "blurred": blurred,
    "faded": faded,
}
"""Kinds of images, by name."""


def _pixels(values: Tensor) -> Tensor:
    return values.round().clamp(0, 255).to(torch.uint8)
