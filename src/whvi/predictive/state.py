"""A model while it predicts, and whether it is still the same afterwards."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from whvi.errors import UnsupportedError
from whvi.ops.torch_private import version
from whvi.rows import Inputs, tensors

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


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Snapshot:
    """Which tensors there are, how often each was written to, and a sum of its bits: nothing is copied.

    Args:
        parts: modules and inputs, by what an error shall call them.

    >>> layer = nn.Linear(2, 2)
    >>> snapshot = Snapshot({"the model": layer})
    >>> snapshot.check()
    >>> _ = nn.init.zeros_(layer.bias)
    >>> snapshot.check()
    Traceback (most recent call last):
    ...
    whvi.errors.UnsupportedError: the model has changed since this prediction was made; predict again
    """

    def __init__(self, parts: Mapping[str, nn.Module | Inputs]) -> None:
        self._parts = parts
        self._marks = {name: _marks(part) for name, part in parts.items()}

    def check(self) -> None:
        """Raise UnsupportedError if a tensor was written to or replaced."""
        for name, part in self._parts.items():
            if _marks(part) != self._marks[name]:
                raise UnsupportedError(f"{name} has changed since this prediction was made; predict again")


def _marks(part: nn.Module | Inputs) -> list[tuple[int, int, int, int]]:
    all_of = [*part.parameters(), *part.buffers()] if isinstance(part, nn.Module) else tensors(part)
    # Tensors of inference mode do not count their versions.
    return [(id(t), t.data_ptr(), 0 if t.is_inference() else version(t), _content(t)) for t in all_of]


def _content(tensor: Tensor) -> int:
    """The sum of a tensor's bits as whole numbers: for writes that its version does not count (``Adam(fused=True)``).

    A sum of floats would depend on the number of threads, and would not equal itself where there is a NaN.
    """
    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    bits = plain.view(_WHOLE[plain.element_size()])
    # Left to itself, torch would sum a copy in int64, in twenty times the time. Short ones would wrap too early.
    return int(bits.sum(dtype=bits.dtype if plain.element_size() >= 4 else None))
