"""Checks of numbers that a caller gives, with errors that state what was expected and what came."""

from numbers import Integral, Real

import numpy as np

from whvi.errors import ArgumentError, InputTypeError


def whole_number(name: str, value: object, least: int = 1) -> int:
    """``value``, if it is an int of that size at least.

    >>> whole_number("in_features", 0)
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: in_features must be at least 1, got 0
    """
    found = any_whole_number(name, value)
    if found < least:
        raise ArgumentError(f"{name} must be at least {least}, got {found}")
    return found


def any_whole_number(name: str, value: object) -> int:
    """``value``, if it is an int of any size and sign, as seeds are.

    >>> any_whole_number("seed", -7)
    -7
    """
    if isinstance(value, bool) or not isinstance(value, Integral):  # numpy's whole numbers are Integral too
        raise InputTypeError(f"{name} must be an int, got {value!r:.80}")
    if not -(2**63) <= int(value) < 2**63:
        raise ArgumentError(f"{name} must fit in 64 bits, got {value!r:.80}")
    return int(value)


def positive_number(name: str, value: object) -> float:
    """``value``, if it is a positive finite number.

    >>> positive_number("learning_rate", -1e-3)
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: learning_rate must be positive and finite, got -0.001
    """
    found = number(name, value)
    if not 0.0 < found < float("inf"):
        raise ArgumentError(f"{name} must be positive and finite, got {value}")
    return found


def truth(name: str, value: object) -> bool:
    """``value``, if it is True or False: of a text, or a list, Python would take any that is not empty for True.

    >>> truth("early_stopping", "False")
    Traceback (most recent call last):
    ...
    whvi.errors.InputTypeError: early_stopping must be True or False, got 'False'
    """
    if not isinstance(value, bool | np.bool_):
        raise InputTypeError(f"{name} must be True or False, got {value!r:.80}")
    return bool(value)


def number(name: str, value: object) -> float:
    """``value``, if it is a number.

    >>> number("p", "a half")
    Traceback (most recent call last):
    ...
    whvi.errors.InputTypeError: p must be a number, got str
    """
    if isinstance(value, bool) or not isinstance(value, Real):  # numpy's numbers are Real too
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__}")
    if isinstance(value, Integral) and abs(int(value)) >= 2**1023:  # it has no float
        raise ArgumentError(f"{name} must be finite, got {value!r:.80}")
    return float(value)
