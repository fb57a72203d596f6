"""The tables and figures of the paper: one module for each, and here their names."""

from collections.abc import Callable
from pathlib import Path

from whvi.errors import ArgumentError
from whvi_paper.exhibits import covariance

EXHIBITS: dict[str, Callable[[Path], Path]] = {
    "covariance": covariance.run,
}
"""Name of each exhibit, and the function that makes it in a folder and returns the path of what a reader opens."""


def reproduce(name: str, out: Path) -> Path:
    """Make the exhibit of that name in the folder ``out``, which need not exist; the path of the result."""
    if name not in EXHIBITS:
        raise ArgumentError(f"exhibit {name!r} is not known; use one of: {', '.join(EXHIBITS)}")
    out.mkdir(parents=True, exist_ok=True)
    return EXHIBITS[name](out)
