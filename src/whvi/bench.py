"""Old import path of ``whvi_paper.bench``, for one release."""

from whvi.moved import moved_names

__getattr__ = moved_names(__name__, {"run": "whvi_paper.bench"})
