"""Checks of the arguments of public functions by their annotations, with uniform errors."""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from itertools import cycle
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import numpy as np
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, InputTypeError

Target = TypeVar("Target", bound=Callable[..., Any])
_LARGEST = sys.float_info.max
_WORDS = {
    "Tensor": "a torch.Tensor",
    "Module": "a torch.nn.Module",
    "Generator": "a torch.Generator",
    "PathLike": "a path",
    "Likelihood": "one of whvi.likelihoods, such as Gaussian()",
    "Algorithm": "one such as SVI() or MAP()",
    "Callback": "a Callback such as Every(100, function)",
}
"""What an error calls an object of a class, where not by its name."""
_UNCHECKED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Kind(NamedTuple):
    """The requirement of an annotation."""

    words: str
    """As in "must be an int"."""
    typed: Callable[[object], bool]
    """Whether a value is of the right type."""
    holds: Callable[[Any], bool] = lambda value: True
    """Whether a value of the right type is in range."""
    more: str = ""
    """As in "must be an int that fits in 64 bits", for one that does not."""


def checked_but(*own: str) -> Callable[[Target], Target]:
    """``checked``, except arguments with a better check in the function itself."""

    def decorate(target: Target) -> Target:
        if isinstance(target, type):
            cls: Any = target
            cls.__init__ = decorate(cls.__init__)
            return target
        kinds: dict[str, Kind] = {}
        names: list[str] = []

        @wraps(target)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if not torch.compiler.is_compiling():
                if not names:  # at the first call, when all names of annotations are there
                    found = [p for p in signature(target).parameters.values() if p.kind not in _UNCHECKED]
                    kinds.update((p.name, _kind_of(p, target)) for p in found if p.name not in own)
                    names.extend(p.name for p in found)
                for name, value in (*zip(names, arguments, strict=False), *keywords.items()):
                    if name in kinds:
                        check(name, value, kinds[name])
            return target(*arguments, **keywords)

        return cast(Target, call)

    return decorate


def checked(target: Target) -> Target:
    """A decorator for a function, or for a class and what it is made with.

    What has no annotation, and ``*args`` and ``**options``, are for what they are passed on to. Nothing is checked
    while a graph is traced: what is traced has its types from the call.

    >>> @checked
    ... def scaled(x: Tensor, factor: float = 1.0, *, inplace: bool = False) -> Tensor: ...
    >>> scaled(torch.zeros(2), float("nan"))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: factor must be a number that is finite, got nan
    >>> scaled(torch.zeros(2), inplace="False")
    Traceback (most recent call last):
    ...
    whvi.errors.InputTypeError: inplace must be True or False, got str
    """
    return checked_but()(target)


def check(name: str, value: object, kind: Kind) -> None:
    """Raise an error if an argument is invalid."""
    if not kind.typed(value):
        how = "; convert it with torch.as_tensor" if _WORDS["Tensor"] in kind.words else ""
        raise InputTypeError(f"{name} must be {kind.words}, got {_in_short(value)}{how}")
    if not kind.holds(value):
        raise ArgumentError(f"{name} must be {kind.words}{kind.more}, got {value!r:.80}")


def _in_short(value: object) -> str:
    """A number as it is; else the type, and those of the items of a list.

    >>> _in_short(1.5), _in_short("a"), _in_short([1, None])
    ('1.5', 'str', 'list of NoneType, int')
    """
    if isinstance(value, bool | int | float):
        return f"{value!r:.80}"
    inner = sorted({type(item).__name__ for item in value}) if isinstance(value, list | tuple) else []
    return f"{type(value).__name__}{' of ' if inner else ''}{', '.join(inner)}"


def _kind_of(parameter: Parameter, target: Callable[..., Any]) -> Kind:
    annotation = parameter.annotation
    if annotation is Parameter.empty:
        return _ANYTHING
    if isinstance(annotation, str):
        annotation = eval(annotation, getattr(target, "__globals__", {}))
    return kind_of(annotation)


def kind_of(annotation: Any) -> Kind:
    """What an annotation asks for.

    >>> kind_of(int | None).words, kind_of(Literal["a", "b"]).words
    ('an int or None', "one of 'a', 'b'")
    """
    if annotation in _KINDS:
        return _KINDS[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _any_of(inner)
    if origin is Literal:
        return Kind(f"one of {', '.join(map(repr, inner))}", lambda value: isinstance(value, str), inner.__contains__)
    if origin in (tuple, list, Sequence, Iterable):
        return _several(origin, inner)
    if origin is type:
        return Kind("a class", lambda value: isinstance(value, type))
    if origin is Callable or annotation is Callable or origin is get_origin(Callable[..., Any]):
        return Kind("a function", callable)
    if isinstance(annotation, TypeVar):
        return kind_of(annotation.__bound__) if annotation.__bound__ else _ANYTHING
    kind = origin or annotation
    if not isinstance(kind, type) or kind is object:
        return _ANYTHING
    name = kind.__name__
    words = _WORDS.get(name, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")
    return Kind(words, lambda value: isinstance(value, kind))


def _any_of(annotations: Sequence[Any]) -> Kind:
    """Of a union."""
    inner = [part for part in annotations if part is not str or torch.device not in annotations]
    kinds = [kind_of(part) for part in inner]

    def holds(value: object) -> bool:
        return any(kind.typed(value) and kind.holds(value) for kind in kinds)

    words = " or ".join(dict.fromkeys(kind.words for kind in kinds))
    more = "".join(dict.fromkeys(kind.more for kind in kinds))
    return Kind(words, lambda value: any(kind.typed(value) for kind in kinds), holds, more)


def _several(origin: type, inner: Sequence[Any]) -> Kind:
    """Of a sequence, whose items are looked at, or of what can only be gone through."""
    fixed = origin is tuple and not (len(inner) == 2 and inner[1] is ...)
    kinds = [kind_of(part) for part in (inner if fixed else inner[:1])]
    what = f"({', '.join(kind.words for kind in kinds)})" if fixed else f"a sequence (each item {kinds[0].words})"

    text = origin is Iterable and kinds[0].typed("")

    def items(value: Any) -> Iterable[tuple[Kind, Any]]:
        """Of what can be gone through again."""
        again = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
        return zip(kinds if fixed else cycle(kinds), value, strict=False) if again else ()

    def typed(value: object) -> bool:
        if isinstance(value, str):
            return text
        several = Iterable if origin is Iterable else Sequence | nn.ModuleList | np.ndarray
        right = isinstance(value, several) and not isinstance(value, Tensor)
        return right and all(kind.typed(item) for kind, item in items(value))

    def holds(value: Any) -> bool:
        right = not fixed or len(value) == len(kinds)
        return right and all(kind.holds(item) for kind, item in items(value))

    return Kind(what, typed, holds)


def _is_device(value: Any) -> bool:
    try:
        torch.device(value)
    except RuntimeError:
        return False
    return True


def _is_int(value: object) -> bool:
    return isinstance(value, Integral | torch.SymInt) and not isinstance(value, bool)  # numpy's are Integral too


def _is_number(value: object) -> bool:
    return isinstance(value, Real | torch.SymFloat | torch.SymInt) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    plain = value.item() if isinstance(value, np.generic) else value  # float16 could not be compared
    return not isinstance(plain, Real) or bool(-_LARGEST <= plain <= _LARGEST)  # type: ignore[operator]


_FITS = " that fits in 64 bits"
_ANYTHING = Kind("anything", lambda value: True)
_KINDS: dict[Any, Kind] = {
    Any: _ANYTHING,
    None: Kind("None", lambda value: value is None),
    NoneType: Kind("None", lambda value: value is None),
    bool: Kind("True or False", lambda value: isinstance(value, bool | np.bool_)),
    int: Kind("an int", _is_int, lambda value: isinstance(value, torch.SymInt) or -(2**63) <= value < 2**63, _FITS),
    float: Kind("a number", _is_number, _is_finite, " that is finite"),
    str: Kind("a string", lambda value: isinstance(value, str)),
    torch.device: Kind("a device", lambda value: isinstance(value, torch.device | str), _is_device),
    torch.dtype: Kind("a real floating-point type", lambda value: isinstance(value, torch.dtype)),
}
"""What annotations that stand for themselves ask for."""
