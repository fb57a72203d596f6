"""A model while it predicts, and whether it is still the same afterwards."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from whvi.errors import UnsupportedError

_switching = threading.RLock()
"""Flags belong to a module, not to a thread: who finds a model in training mode holds this until it is back there."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the length of a block; every module has its own flag again after it, also after an error.

    A model that is in eval mode is not touched, and any number of threads may use it. One that is in training mode
    serves one thread at a time.

    >>> model = nn.Sequential(nn.BatchNorm1d(3)).train()
    >>> with evaluating(model):
    ...     model[0].training
    False
    >>> model[0].training
    True
    """
    with ExitStack() as afterwards:
        afterwards.enter_context(_switching)
        in_training = [module for module in model.modules() if module.training]
        if not in_training:
            afterwards.close()
        for module in in_training:
            afterwards.callback(setattr, module, "training", True)
            module.training = False
        yield


class Snapshot:
    """Which tensors there are, and how often each was written to: nothing is copied.

    Args:
        parts: modules and tensors, by what an error shall call them.

    >>> layer = nn.Linear(2, 2)
    >>> snapshot = Snapshot({"the model": layer})
    >>> snapshot.check()
    >>> _ = nn.init.zeros_(layer.bias)
    >>> snapshot.check()
    Traceback (most recent call last):
    ...
    whvi.errors.UnsupportedError: the model has changed since this prediction was made; predict again
    """

    def __init__(self, parts: Mapping[str, nn.Module | Tensor]) -> None:
        self._parts = parts
        self._marks = {name: _marks(part) for name, part in parts.items()}

    def check(self) -> None:
        """Raise UnsupportedError if a tensor was written to or replaced (a write through ``.data`` is not seen)."""
        for name, part in self._parts.items():
            if _marks(part) != self._marks[name]:
                raise UnsupportedError(f"{name} has changed since this prediction was made; predict again")


def _marks(part: nn.Module | Tensor) -> list[tuple[int, int, int]]:
    tensors = [part] if isinstance(part, Tensor) else [*part.parameters(), *part.buffers()]
    # Tensors of inference mode do not count their versions.
    return [(id(tensor), tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]
