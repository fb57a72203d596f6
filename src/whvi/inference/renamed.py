"""Old names of arguments and attributes: they work for one release, with a DeprecationWarning."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from whvi.caller import warn_caller
from whvi.errors import ArgumentError

Target = TypeVar("Target", bound=Callable[..., Any])


def renamed(**names: str) -> Callable[[Target], Target]:
    """A decorator for a function, or for a class and its attributes: ``renamed(old="new")``.

    >>> @renamed(beta="kl_weight")
    ... def weight(kl_weight: float) -> float:
    ...     return kl_weight
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = weight(beta=2.0)
    >>> found, str(caught[0].message)
    (2.0, 'beta is now called kl_weight')
    """

    def decorate(target: Target) -> Target:
        if not isinstance(target, type):
            return _with_old_names(target, names)  # type: ignore[return-value]
        cls: Any = target
        cls.__init__ = _with_old_names(cls.__init__, names)
        for old, new in names.items():
            setattr(cls, old, property(_reader(old, new)))
        return target

    return decorate


def _with_old_names(function: Callable[..., Any], names: dict[str, str]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for old in names.keys() & keywords.keys():
            new = names[old]
            warn_caller(f"{old} is now called {new}")
            if new in keywords:
                raise ArgumentError(f"{new} is given twice, also as {old}; pass only {new}")
            keywords[new] = keywords.pop(old)
        return function(*arguments, **keywords)

    return call


def _reader(old: str, new: str) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        warn_caller(f"{old} is now called {new}")
        return getattr(self, new)

    return read
