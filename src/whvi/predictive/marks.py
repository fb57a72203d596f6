"""By what one sees that a module, or inputs, are no longer what they were; of tensors nothing is copied."""

from collections.abc import Mapping
from enum import Enum
from math import isqrt
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from whvi.nn.swap import own_tensors
from whvi.ops.torch_private import version

_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, Enum)
_CLOSED = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""What is known by which it is: its attributes are not looked at."""
_SIMPLE = frozenset((bool, int, str, type(None)))
_BARE = frozenset(vars(nn.Module()))
"""What every module has: tensors and parts, which are looked at elsewhere, hooks, and the training flag, which is no
setting, as predictions are made in eval mode."""
_HOOKS = frozenset(name for name in _BARE if "forward" in name)
_DEPTH = 6
"""Containers and objects within each other that are looked into."""
_WHOLLY = 1 << 13
"""Bytes of a tensor that are looked at as they are."""


class Which:
    """Equal to the mark of the same object alone, which it keeps from being replaced by another at its address."""

    __slots__ = ("_of",)

    def __init__(self, of: object) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Which) and other._of is self._of

    __hash__ = None  # type: ignore[assignment]


def tensor_marks(part: object) -> dict[str, Any]:
    """Marks by name of the parameters and buffers of a module, or of nested inputs."""
    if not isinstance(part, nn.Module):
        return {"": _mark(part, _DEPTH, set())}
    return {name: tensor_mark(tensor) for name, tensor in own_tensors(part)}


def setting_marks(part: object, seen: set[int] | None = None) -> dict[str, Any]:
    """Marks by name of the other parts of a module, except training flags: modules, hooks and attributes.

    >>> layer = nn.Sequential(nn.Dropout(0.1))
    >>> before = setting_marks(layer)
    >>> layer[0].p = 0.2
    >>> [name for name, mark in setting_marks(layer).items() if mark != before[name]]
    ['0.p']
    """
    found: dict[str, Any] = {}
    if not isinstance(part, nn.Module):
        return found
    seen = set() if seen is None else seen
    for path, module in part.named_modules():
        found[path] = Which(module), Which(type(module))
        dot = f"{path}." if path else ""
        for name, value in vars(module).items():
            if type(value) in _SIMPLE:
                if name != "training":
                    found[dot + name] = value
            elif name not in _BARE or (name in _HOOKS and value):
                found[dot + name] = _mark(value, _DEPTH, seen)
    return found


def _mark(value: object, depth: int, seen: set[int]) -> Any:
    """What is equal as long as the value is what it was; objects are looked into, each once."""
    if isinstance(value, _PLAIN):
        return value if value == value else "not a number"
    if isinstance(value, Tensor):
        return tensor_mark(value)
    if not depth:
        return Which(value)
    if isinstance(value, tuple | list | set | frozenset):
        return (Which(type(value)), *(_mark(item, depth - 1, seen) for item in value))
    if isinstance(value, Mapping):
        keys = (key if isinstance(key, _PLAIN) else Which(key) for key in value)
        return tuple((key, _mark(item, depth - 1, seen)) for key, item in zip(keys, value.values(), strict=True))
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return Which(value), value.tobytes()
    if id(value) in seen or _closed(value):
        return Which(value)
    seen.add(id(value))
    if isinstance(value, nn.Module):
        return Which(value), tuple(setting_marks(value, seen).items())
    return Which(value), _mark(vars(value), depth - 1, seen)


def _closed(value: object) -> bool:
    """Whether it has no attributes that could be set."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return getattr(parameters, "frozen", False) or isinstance(value, _CLOSED) or not hasattr(value, "__dict__")


def tensor_mark(tensor: Tensor) -> Any:
    """Which tensor it is, where its numbers are, how often they were written to, and what they are."""
    written = 0 if tensor.is_inference() else version(tensor)  # tensors of inference mode do not count
    if tensor.device.type == "meta":
        return Which(tensor), written
    return Which(tensor), tensor.data_ptr(), written, tuple(tensor.shape), content(tensor)


def content(tensor: Tensor) -> tuple[bytes, ...]:
    """Sums of a tensor's bits as whole numbers, over rows and columns of a square: writes that no version counts
    (``Adam(fused=True)``, the array behind a tensor, ``tensor.data``) change some, and so does another order.

    Sums of floats would depend on the number of threads, and would not equal themselves where there is a NaN.

    >>> content(torch.arange(999)) == content(torch.arange(999).flip(0))
    False
    """
    plain = tensor.detach()
    if plain.layout is not torch.strided or plain.is_quantized:
        return ()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    flat = plain.contiguous().view(-1).view(_WHOLE[plain.element_size()])
    if flat.nbytes <= _WHOLLY:
        return (_bytes(flat),)
    side = isqrt(flat.numel())
    whole = flat.numel() // side * side
    square = flat[:whole].view(-1, side)
    # Left to itself, torch would sum a copy in int64, in twenty times the time. Short ones would wrap too early.
    kind = flat.dtype if flat.element_size() >= 4 else None
    return _bytes(square.sum(0, dtype=kind)), _bytes(square.sum(1, dtype=kind)), _bytes(flat[whole:])


def _bytes(numbers: Tensor) -> bytes:
    return numbers.cpu().numpy().tobytes()
