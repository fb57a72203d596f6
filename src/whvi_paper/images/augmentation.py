"""Images for training and for prediction: uint8 in, numbers for a network out. All of a batch at once."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from whvi.arguments import whole_number
from whvi.errors import ArgumentError, DtypeError, ShapeError

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of the channels of CIFAR-10's training images, on the scale 0 ... 1."""


@dataclass(frozen=True)
class Standardise:
    """Pixels with mean 0 and variance 1 in each channel: (N, 3, H, W) uint8 -> the same shape, float32, channels last.

    With a ``side``, images are shrunk to (side, side): each pixel is the mean of an area.

    >>> Standardise()(torch.zeros(2, 3, 4, 4, dtype=torch.uint8))[0, :, 0, 0]
    tensor([-1.9895, -1.9803, -1.7068])
    >>> Standardise(side=2)(torch.zeros(2, 3, 4, 4, dtype=torch.uint8)).shape
    torch.Size([2, 3, 2, 2])
    """

    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD
    side: int | None = None

    def __post_init__(self) -> None:
        if self.side is not None:
            whole_number("side", self.side)

    def __call__(self, images: Tensor) -> Tensor:
        """The images of a batch."""
        check_pixels(images)
        return self.finish(images.permute(0, 2, 3, 1).contiguous())

    def finish(self, rows: Tensor) -> Tensor:
        """(N, H, W, 3) uint8 -> (N, 3, H, W) float32, or fewer pixels.

        A view of what is contiguous is "channels last" to torch.
        """
        mean, std = (torch.tensor(value, device=rows.device) * 255 for value in (self.mean, self.std))
        images = ((rows - mean) / std).permute(0, 3, 1, 2)
        return images if self.side is None else interpolate(images, size=self.side, mode="area")


@dataclass(frozen=True)
class Augment(Standardise):
    """A random part of the image, moved by up to ``shift`` pixels, and its mirror image half of the time.

    What moves in from outside is the image reflected at its edge. One gather for the batch.

    Law: with shift 0, an image or its mirror image.

    >>> images = torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8)
    >>> Augment()(images).shape
    torch.Size([8, 3, 32, 32])
    """

    shift: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("shift", self.shift, least=0)

    def __call__(self, images: Tensor) -> Tensor:
        """The images of a batch, each in its own way."""
        check_pixels(images)
        count, _, height, width = images.shape
        rows, columns = (self._moved(count, size, images.device) for size in (height, width))
        if self.flip:
            columns = torch.where(torch.rand(count, 1, device=images.device) < 0.5, columns, columns.flip(1))
        places = torch.arange(count, device=images.device)[:, None, None], rows[:, :, None], columns[:, None, :]
        return self.finish(images.permute(0, 2, 3, 1)[places])

    def _moved(self, count: int, size: int, device: torch.device) -> Tensor:
        """Where the pixels of a line come from: (count, size), each in 0 ... size - 1."""
        if self.shift >= size:
            raise ArgumentError(f"shift is {self.shift}, but must be less than the {size} pixels of a line")
        moves = torch.randint(-self.shift, self.shift + 1, (count, 1), device=device)
        places = torch.arange(size, device=device) + moves
        return (size - 1) - ((size - 1) - places.abs()).abs()


def check_pixels(images: Tensor) -> None:
    """Raise the error that says what is wrong with images, if anything is."""
    if images.dtype != torch.uint8:
        raise DtypeError(f"images have dtype {images.dtype}, but must be torch.uint8, with pixels 0 ... 255")
    if images.ndim != 4 or images.shape[1] != 3:
        raise ShapeError(f"images have shape {tuple(images.shape)}, but must be (N, 3, height, width)")
