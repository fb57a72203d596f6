"""Warnings that name the line of a program which uses this package, however deep in the package they arise."""

import warnings
from inspect import currentframe
from pathlib import Path

_PACKAGE = str(Path(__file__).parent / "_").removesuffix("_")


def warn_caller(message: str, category: type[Warning] = DeprecationWarning) -> None:
    """Warn with the file and line of the first caller outside of this package."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
