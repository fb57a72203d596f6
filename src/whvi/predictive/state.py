"""A model while it predicts, and whether it is still the same afterwards."""

import threading
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from whvi.errors import UnsupportedError
from whvi.predictive.marks import setting_marks, tensor_marks
from whvi.rows import Inputs

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
        afterwards.callback(_set_training, in_training, True)
        _set_training(in_training, False)
        yield


def _set_training(modules: list[nn.Module], flag: bool) -> None:
    for module in modules:
        object.__setattr__(module, "training", flag)  # nn.Module's own looks for parameters of that name first


class Snapshot:
    """What some modules and inputs are when it is made: their tensors, modules, hooks and settings.

    Args:
        parts: modules and inputs, by what an error shall call them.

    >>> layer = nn.Linear(2, 2)
    >>> snapshot = Snapshot({"the model": layer})
    >>> snapshot.check()
    >>> _ = nn.init.zeros_(layer.bias)
    >>> snapshot.check()
    Traceback (most recent call last):
    ...
    whvi.errors.UnsupportedError: the model has changed since this prediction was made (bias); predict again
    """

    def __init__(self, parts: Mapping[str, nn.Module | Inputs]) -> None:
        self._parts = parts
        self._tensors = {name: tensor_marks(part) for name, part in parts.items()}
        self._settings = {name: setting_marks(part) for name, part in parts.items()}
        self._own: dict[str, set[str]] = {name: set() for name in parts}
        """Attributes that modules set themselves."""

    def check(self) -> None:
        """Raise UnsupportedError if a tensor was written to, or anything was replaced or set."""
        for name, part in self._parts.items():
            changed = _differing(self._settings[name], setting_marks(part), self._own[name])
            changed += _differing(self._tensors[name], tensor_marks(part))
            if changed:
                where = f" ({', '.join(changed[:3])})" if all(changed) else ""
                raise UnsupportedError(f"{name} has changed since this prediction was made{where}; predict again")

    def settle(self) -> None:
        """After a pass: what the modules themselves set in it, such as a cache or a count, is no setting of theirs."""
        for name, part in self._parts.items():
            self._own[name].update(_differing(self._settings[name], setting_marks(part)))


def _differing(before: Mapping[str, Any], now: Mapping[str, Any], without: Container[str] = ()) -> list[str]:
    names = (name for name in {**before, **now} if name not in without)
    return [name for name in names if name not in before or name not in now or before[name] != now[name]]
