"""Coloured stripes, as images in the format of CIFAR-10: a small set that a network can learn in a few steps."""

from dataclasses import dataclass

import numpy as np

from whvi_paper.data.table import Arrays

SIZE = 32
HUES = ("red", "orange", "green", "cyan", "violet")
CLASSES = tuple(f"{hue}-{way}" for way in ("rows", "columns") for hue in HUES)


@dataclass(frozen=True)
class Gratings:
    """Stripes of one of five hues along the rows or the columns, at any phase, with noise.

    Law: a mirror image and a shifted image belong to the class of the image, so augmentation is right here.
    """

    wavelength: float = 8.0
    contrast: float = 80.0
    noise: float = 25.0

    def data(self, rows: int, seed: int = 0) -> Arrays:
        """Images (rows, 3, 32, 32) uint8 and labels (rows,), the ten classes in turn.

        >>> x, y = Gratings().data(20)
        >>> x.shape, x.dtype, y[8:13]
        ((20, 3, 32, 32), dtype('uint8'), array([8, 9, 0, 1, 2]))
        """
        generator = np.random.default_rng(seed)
        y = np.arange(rows) % len(CLASSES)
        # A stripe at another phase has the opposite colour in its place, so hues are directions on half a circle.
        angle = np.pi * (y % len(HUES))[:, None] / len(HUES) + 2 * np.pi * np.arange(3) / 3
        phase = generator.uniform(0, 2 * np.pi, (rows, 1))
        wave = np.sin(2 * np.pi * np.arange(SIZE) / self.wavelength + phase)
        down, across = wave[:, :, None], wave[:, None, :]
        stripes = np.where((y < len(HUES))[:, None, None], down + 0 * across, across + 0 * down)
        signal = self.contrast * np.cos(angle)[:, :, None, None] * stripes[:, None]
        pixels = 128 + signal + self.noise * generator.normal(size=signal.shape)
        return pixels.round().clip(0, 255).astype(np.uint8), y
