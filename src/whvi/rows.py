"""Rows of the inputs of a model: a tensor, or several in a tuple (positional arguments) or a mapping (keywords).

Rows are the first axis of every tensor. Other values (a flag, None) belong to the call and have no rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError

Inputs: TypeAlias = Tensor | Sequence[Any] | Mapping[str, Any]
"""x: a tensor, or a tuple, list or mapping of tensors, which may be nested."""
_CONSTANTS = (bool, int, float, str, type(None))
"""Types of arguments of a model besides tensors."""
_CHECKED = 1 << 18
"""Numbers that are checked at a time."""


def mapped(function: Callable[[Tensor], Any], x: Any, other: Callable[[Any], Any] = lambda value: value) -> Any:
    """The function of each tensor in nested tuples, lists and mappings, in the same nesting.

    Args:
        function: of a tensor.
        x: mappings become dictionaries.
        other: a function of other values; default the identity.

    >>> mapped(len, {"tokens": torch.zeros(3, 7), "flag": True})
    {'tokens': 3, 'flag': True}
    """
    if isinstance(x, Tensor):
        return function(x)
    if isinstance(x, Mapping):
        return {name: mapped(function, part, other) for name, part in x.items()}
    if isinstance(x, tuple | list):
        parts = [mapped(function, part, other) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return other(x)


def tensors(x: Inputs) -> list[Tensor]:
    """The tensors of x, in order."""
    found: list[Tensor] = []
    mapped(found.append, x)
    return found


def count(x: Inputs) -> int:
    """How many rows x has; for inputs that were checked.

    >>> count((torch.zeros(3, 7), torch.zeros(3)))
    3
    """
    return x.shape[0] if isinstance(x, Tensor) else tensors(x)[0].shape[0]


def device(x: Inputs) -> torch.device:
    """Where x is."""
    return tensors(x)[0].device


def take(x: Inputs, index: Tensor | slice) -> Any:
    """Some of the rows.

    >>> take({"a": torch.arange(4), "b": torch.eye(4)}, slice(1, 2))
    {'a': tensor([1]), 'b': tensor([[0., 1., 0., 0.]])}
    """
    return mapped(lambda tensor: tensor[index], x)


def repeated(x: Inputs, times: int) -> Any:
    """All rows, and all of them again, several times: a copy, unless it is once.

    >>> repeated(torch.tensor([1, 2]), 2)
    tensor([1, 2, 1, 2])
    """
    return x if times == 1 else mapped(lambda tensor: tensor.repeat(times, *[1] * (tensor.ndim - 1)), x)


def filled_up(x: Inputs, rows: int) -> Any:
    """x, with some of its rows again where it has fewer than ``rows``.

    >>> filled_up(torch.tensor([1, 2]), 3)
    tensor([1, 2, 1])
    """
    size = count(x)
    return x if size >= rows else mapped(lambda t: t[torch.arange(rows, device=t.device) % size], x)


def joined(parts: Sequence[Inputs]) -> Any:
    """The rows of several inputs of one form, one after the other."""
    each = [tensors(part) for part in parts]
    found = iter(torch.cat(same) for same in zip(*each, strict=True))
    return mapped(lambda _: next(found), parts[0])


def form(x: Inputs) -> Any:
    """The structure of inputs without values and rows, for comparisons: nesting, names, shapes, dtypes, flags."""
    return mapped(lambda tensor: (tuple(tensor.shape[1:]), str(tensor.dtype)), x)


def call(model: Callable[..., Any], x: Inputs) -> Any:
    """What a model gives: a tensor is its argument, a tuple its arguments, a mapping its keywords.

    >>> call(lambda a, b: a - b, {"b": torch.tensor([1]), "a": torch.tensor([3])})
    tensor([2])
    """
    positional, keywords = arguments(x)
    return model(*positional, **keywords)


def arguments(x: Inputs) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The positional and keyword arguments in x."""
    if isinstance(x, Tensor):
        return (x,), {}
    return ((), x) if isinstance(x, Mapping) else (x, {})


def check(x: object, name: str = "x") -> None:
    """Raise the error that says what is wrong with inputs, if anything is. Floating tensors must be finite.

    >>> check(torch.tensor([[0.0], [torch.nan]]))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: x has NaN or inf in 1 of 2 rows; remove these rows or fill them
    >>> check({"tokens": torch.zeros(3, 7), "mask": torch.ones(2, 7)})
    Traceback (most recent call last):
    ...
    whvi.errors.ShapeError: x['tokens'] has 3 rows, but x['mask'] has 2; the first axis of every tensor must be rows
    """
    found = dict(_named(name, x, 0))
    for part, tensor in found.items():
        _check_tensor(part, tensor)
    if not found:
        raise InputTypeError(f"{name} has no tensor; convert numbers with torch.as_tensor")
    first, rows = next(iter(found)), len(next(iter(found.values())))
    for part, tensor in found.items():
        if len(tensor) != rows:
            raise ShapeError(
                f"{first} has {rows} rows, but {part} has {len(tensor)}; the first axis of every tensor must be rows"
            )


def _named(name: str, x: object, depth: int) -> Iterator[tuple[str, Tensor]]:
    """The tensors of x by what an error shall call them."""
    if isinstance(x, Tensor):
        yield name, x
    elif isinstance(x, Mapping):
        for key, part in x.items():
            if not isinstance(key, str):
                raise InputTypeError(f"keys of {name} must be names of arguments, got {key!r}")
            yield from _named(f"{name}[{key!r}]", part, depth + 1)
    elif isinstance(x, tuple | list):
        for i, part in enumerate(x):
            yield from _named(f"{name}[{i}]", part, depth + 1)
    elif depth != 1 or not isinstance(x, _CONSTANTS):
        several = " or a tuple or dict of tensors" if depth == 0 else ""
        raise InputTypeError(
            f"{name} must be a torch.Tensor{several}, got {type(x).__name__}; convert it with torch.as_tensor"
        )


def _check_tensor(name: str, x: Tensor) -> None:
    if x.is_complex():
        raise DtypeError(f"{name} has dtype {x.dtype}, but inputs must be real")
    if x.ndim == 0:
        raise ShapeError(f"{name} is a scalar, but its first axis must be rows; use x.reshape(1, 1)")
    if not x.is_floating_point() or not x.numel():
        return
    rows = max(1, _CHECKED * x.shape[0] // x.numel())
    finite = sum(
        int(part.isfinite().flatten(1).all(1).sum()) if x.ndim > 1 else int(part.isfinite().sum())
        for part in x.detach().split(rows)
    )
    if finite < x.shape[0]:
        bad = x.shape[0] - finite
        raise ArgumentError(f"{name} has NaN or inf in {bad} of {x.shape[0]} rows; remove these rows or fill them")
