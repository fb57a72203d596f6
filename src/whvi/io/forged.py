"""Checks of untrusted files.

Sizes that one states are checked against the tensors that it holds, before anything of these sizes is made.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whvi.errors import CheckpointError, WhviError

_DIGITS = re.compile(r"\d+")


def check_kind(place: object, state: Any, form: str, version: int, otherwise: str) -> None:
    """Raise the CheckpointError of a file that is of another format, or of a version that is not read here.

    Args:
        place: the file or its folder.
        state: what it says of itself, as "format" and "version".
        form, version: the expected ones.
        otherwise: what to say of another format, after the place.
    """
    if not isinstance(state, dict) or state.get("format") != form:
        raise CheckpointError(f"{place} {otherwise}")
    if state.get("version") != version:
        raise CheckpointError(
            f"{place} has version {state.get('version')!r:.40}, but this whvi reads {version} (upgrade whvi)"
        )


def check_stated(values: Any, tensors: Mapping[str, Tensor]) -> None:
    """Raise the CheckpointError of JSON that states a size, or has a list, that its tensors are too small for.

    A size is the length of an axis, so no size is larger than the number of elements; each entry of a list of layers
    has a tensor of its own. Digits in a text such as "low_rank:8" are sizes, too.

    >>> check_stated({"hidden": [2], "posterior": "low_rank:1000000000"}, {"weight": torch.zeros(2, 2)})
    Traceback (most recent call last):
    ...
    whvi.errors.CheckpointError: it states a size of 1000000000, but its tensors have 4 elements
    """
    elements = sum(tensor.numel() for tensor in tensors.values())
    for value in _leaves(values, len(tensors)):
        if value > elements:
            raise CheckpointError(f"it states a size of {str(value)[:20]}, but its tensors have {elements} elements")


def check_shapes(make: Callable[[], nn.Module], tensors: Mapping[str, Tensor]) -> None:
    """Raise the CheckpointError of tensors that are not those of a module, which is made without memory for it."""
    with _without_memory():
        wanted = {name: tuple(tensor.shape) for name, tensor in make().state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if wanted != found:
        name = min(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        here, there = ("absent" if name not in shapes else f"of shape {shapes[name]}" for shapes in (found, wanted))
        raise CheckpointError(f"its tensor {name[:80]} is {here}, but its settings need {there}")


def not_as_saved(folder: object, what: str, error: Exception) -> CheckpointError:
    """The error of a folder whose content fails in whatever way, in one short line."""
    kind = "" if isinstance(error, WhviError) else f"{type(error).__name__}: "
    return CheckpointError(f"{folder} is not as {what} is saved: {kind}{' '.join(str(error).split()):.300}")


def _leaves(values: Any, most: int) -> Iterator[float]:
    """All sizes in nested lists and dicts, none of them with more than ``most`` entries."""
    if isinstance(values, dict | list | tuple):
        if isinstance(values, list | tuple) and len(values) > most:
            raise CheckpointError(f"it has a list of {len(values)} layers, but only {most} tensors")
        for value in values.values() if isinstance(values, dict) else values:
            yield from _leaves(value, most)
    elif isinstance(values, str):
        yield from (int(digits[:20]) for digits in _DIGITS.findall(values))
    elif isinstance(values, int | float):
        yield values


class _NoDraws(TorchFunctionMode):
    """Leave out drawing: for tensors without memory torch would import its decompositions, a third of a second."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (torch.empty if function is torch.randn else function)(*args, **(kwargs or {}))


@contextmanager
def _without_memory() -> Iterator[None]:
    with torch.device("meta"), _NoDraws():
        yield
