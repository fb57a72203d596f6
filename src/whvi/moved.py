"""Old import paths of public names: the same objects, with a DeprecationWarning, for one release."""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` for names that now live elsewhere.

    Args:
        module: ``__name__`` of the module that had them.
        homes: the module that has each name now; "module:name" where the name is another one.

    The new home is imported when a name is asked for, so a library can point to a package that depends on it.

    >>> get = moved_names("old.place", {"sqrt": "math"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     root = get("sqrt")(4.0)
    >>> root, str(caught[0].message)
    (2.0, 'old.place.sqrt has moved: import sqrt from math')
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, other = homes[name].partition(":")
        now = other or name
        warnings.warn(f"{module}.{name} has moved: import {now} from {home}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), now)

    return get
