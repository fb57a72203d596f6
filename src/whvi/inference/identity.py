"""What tells one run from another, so that a checkpoint is not resumed by a run it does not belong to."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from torch import nn

from whvi.errors import CheckpointError


def describe(value: Any) -> Any:
    """Settings as JSON: the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: describe(getattr(value, f.name)) for f in fields(value)}}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, partial):
        return {"kind": describe(value.func), "arguments": describe(value.args), **describe(value.keywords)}
    if isinstance(value, Callable) and hasattr(value, "__qualname__"):  # type: ignore[arg-type]
        return f"{value.__module__}.{value.__qualname__}"
    return type(value).__qualname__


def parameters_of(*modules: nn.Module) -> list[Any]:
    """Name, shape and dtype of all that modules hold."""
    return [
        [name, list(tensor.shape), str(tensor.dtype)]
        for module in modules
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    ]


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: object) -> None:
    """Raise CheckpointError that names the first differences, if there are any."""
    differences = list(_differences("", saved, now))
    if differences:
        raise CheckpointError(
            f"the checkpoint in {folder} belongs to another run: {'; '.join(differences[:3])}. "
            "Choose another folder, or remove this one to start anew"
        )


def _differences(path: str, saved: Any, now: Any) -> list[str]:
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        names = list(dict.fromkeys((*saved, *now)))
        return [d for name in names for d in _differences(f"{path}.{name}".lstrip("."), saved.get(name), now.get(name))]
    return [] if saved == now else [f"{path} was {_short(saved)} and is {_short(now)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
