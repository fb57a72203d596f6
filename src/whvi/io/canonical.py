"""Canonical JSON: one text for each value, so that its checksum is defined, with support for inf and nan."""

import json
import math
from typing import Any

from whvi.errors import ArgumentError, InputTypeError

DEPTH = 64
"""How deeply lists and dicts may be nested, so that what can be written can be read from any depth of calls."""
_MARK = "$"
_FLOAT = "$float"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def dump(value: Any, *, name: str = "value") -> bytes:
    """The canonical JSON of a value: ASCII, sorted keys, no spaces, floats in the fewest digits that give them back.

    JSON has no inf and no nan; they become ``{"$float": "inf"}``. So that nothing else can look like that, a key which
    starts with ``$`` gets one more. A tuple becomes a list, a dict is sorted; keys must be strings. Errors
    call the value ``name``.

    Law: parse(dump(value)) == value, floats bit for bit (nan as nan).

    >>> dump({"rate": 0.1, "best": -float("inf"), "$": [1, None, True]})
    b'{"$$":[1,null,true],"best":{"$float":"-inf"},"rate":0.1}'
    """
    try:
        text = json.dumps(_encoded(value, name, 0), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{name} cannot be written as JSON: {error}") from error  # an int of thousands of digits
    return text.encode("ascii")


def parse(data: bytes) -> Any:
    """The value whose canonical JSON is ``data``; any other text is an error, also other JSON.

    Law: dump(parse(data)) == data, or ArgumentError.

    >>> parse(b'{"best":{"$float":"-inf"},"rate":0.1}')
    {'best': -inf, 'rate': 0.1}
    """
    try:
        value = _decoded(json.loads(data.decode("ascii")))
        same = dump(value) == data
    except RecursionError as error:
        raise ArgumentError(f"it is nested more than {DEPTH} deep") from error
    except ArgumentError:
        raise
    except ValueError as error:
        raise ArgumentError(f"it is not JSON as whvi writes it ({error})") from error
    if not same:
        raise ArgumentError("it is JSON, but not in the form that whvi writes")
    return value


def _encoded(value: Any, place: str, depth: int) -> Any:
    if depth > DEPTH:
        raise ArgumentError(f"{place[:200]} is nested more than {DEPTH} deep, or contains itself; make it flatter")
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: float.__repr__(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encoded(part, f"{place}[{index}]", depth + 1) for index, part in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InputTypeError(f"{place} has the key {key!r}, but JSON takes strings as keys; make it a str")
        return {_escaped(key): _encoded(part, f"{place}[{key!r}]", depth + 1) for key, part in value.items()}
    raise InputTypeError(
        f"{place} is of type {type(value).__name__}, but JSON takes None, bool, int, float, str, list, dict; convert it"
    )


def _escaped(key: str) -> str:
    return _MARK + key if key.startswith(_MARK) else key


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_FLOAT}:
        name = value[_FLOAT]
        if not isinstance(name, str) or name not in _NOT_FINITE:
            raise ArgumentError(f"it has {_FLOAT} {name!r}, which is none of {', '.join(_NOT_FINITE)}")
        return _NOT_FINITE[name]
    return {_plain(key): _decoded(part) for key, part in value.items()}


def _plain(key: str) -> str:
    if not key.startswith(_MARK):
        return key
    if not key.startswith(_MARK + _MARK):
        raise ArgumentError(f"it has the key {key!r}, which this whvi does not know")
    return key[1:]
