"""What a model is given: copies of the inputs, so that one which writes into them spoils nothing."""

from collections.abc import Callable
from typing import Any

from whvi.ops.torch_private import version
from whvi.rows import Inputs, tensors


class Handed:
    """Inputs for one pass after another: the same copy, or another where the last pass has written into it.

    Args:
        make: gives a copy.

    >>> import torch
    >>> handed = Handed(lambda: torch.zeros(2))
    >>> handed().add_(1.0)
    tensor([1., 1.])
    >>> handed()
    tensor([0., 0.])
    """

    def __init__(self, make: Callable[[], Inputs]) -> None:
        self._make = make
        self._held: Any = None
        self._versions: list[int] | None = None

    def __call__(self) -> Any:
        """Inputs as they were made."""
        if self._versions is None or _versions(self._held) != self._versions:
            self._held = self._make()
            self._versions = _versions(self._held)
        return self._held


def _versions(x: Inputs) -> list[int] | None:
    """How often the tensors were written to; None where that is not known."""
    found = tensors(x)
    return None if any(tensor.is_inference() for tensor in found) else [version(tensor) for tensor in found]
