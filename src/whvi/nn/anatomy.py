"""A description of a module that can be compared and stored: everything except the values of its tensors."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from itertools import chain
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_BARE = frozenset(vars(nn.Module()))
"""Attributes that every module has."""
_PLAIN = (bool, int, float, str, tuple)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe(value: Any, depth: int = 4) -> Any:
    """Settings as JSON: equal in every process, and different for different settings, as far as detectable."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.dtype | torch.device | torch.Size | type):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): describe(item, depth) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((describe(item, depth) for item in value), key=repr)  # their own order is that of a process
    if isinstance(value, list | tuple):
        return [describe(item, depth) for item in value]
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, np.generic):
        return describe(value.item(), depth)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), *value.shape, sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]]
    if isinstance(value, partial):
        return [describe(part, depth) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, FunctionType):
        # By name and settings, not by byte code, which every version of Python writes in its own way.
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        plain = [describe(part, 0) for part in parts if part is None or isinstance(part, _PLAIN)]
        name = f"{value.__module__}.{value.__qualname__}"
        return [name, *plain] if plain else name
    if isinstance(value, Tensor):
        return [str(value.dtype), *value.shape]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    name = type(value).__qualname__
    if not depth:
        return name
    inner = _attributes(value, depth - 1)
    if inner or isinstance(value, nn.Module):
        return {"class": name, **inner}
    return _ADDRESS.sub("", repr(value))  # what has no attributes says what it is


def anatomy(whole: nn.Module, name: str = "model") -> dict[str, Any]:
    """A description of a module without the values of its tensors: types, plain attributes, names and shapes.

    >>> differences(anatomy(nn.Sequential(nn.Dropout(0.1))), anatomy(nn.Sequential(nn.Dropout(0.2))))
    ['model.0.p was 0.1 and is 0.2']
    """
    found: dict[str, Any] = {}
    for path, module in whole.named_modules():
        own = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        found[f"{name}.{path}".rstrip(".")] = {
            **describe(module),
            **{key: [*describe(tensor), tensor.requires_grad] for key, tensor in own},
        }
    return found


def _attributes(value: Any, depth: int) -> dict[str, Any]:
    slots = {name: getattr(value, name) for name in getattr(value, "__slots__", ()) if hasattr(value, name)}
    found = {**slots, **getattr(value, "__dict__", {})}
    if is_dataclass(value):  # what it keeps of its other fields says nothing new
        kept = {one.name for one in fields(value) if not one.compare}
        found = {name: item for name, item in found.items() if name not in kept}
    # Of what is private, settings of a module count too; what torch itself keeps there, and caches, do not.
    private = {
        name
        for name, item in found.items()
        if isinstance(value, nn.Module) and name not in _BARE and isinstance(item, bool | int | float | str | Enum)
    }
    return {
        name: describe(item, depth)
        for name, item in found.items()
        if name in private or (not name.startswith("_") and name != "training")
    }


def differences(saved: Any, now: Any, path: str = "") -> list[str]:
    """The differences of two descriptions, as text."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        names = dict.fromkeys((*saved, *now))
        parts = [differences(saved.get(name), now.get(name), f"{path}.{name}".lstrip(".")) for name in names]
        return [found for part in parts for found in part]
    return [] if saved == now else [f"{path} was {_short(saved)} and is {_short(now)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
