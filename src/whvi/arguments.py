"""Numbers and inputs that a caller gives: checked in one place, with an error that says what came and is wanted."""

from numbers import Integral, Real

from torch import Tensor

from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError

_CHECKED = 1 << 18
"""Numbers that are checked at a time."""


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
        raise InputTypeError(f"{name} must be an int, got {value!r}")
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


def number(name: str, value: object) -> float:
    """``value``, if it is a number.

    >>> number("p", "a half")
    Traceback (most recent call last):
    ...
    whvi.errors.InputTypeError: p must be a number, got str
    """
    if isinstance(value, bool) or not isinstance(value, Real):  # numpy's numbers are Real too
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__}")
    return float(value)


def check_inputs(x: object) -> None:
    """Raise the error that says what is wrong with inputs, if anything is.

    >>> import torch
    >>> check_inputs(torch.tensor([[0.0], [torch.nan]]))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: x has NaN or inf in 1 of 2 rows; remove these rows or fill them
    """
    if not isinstance(x, Tensor):
        raise InputTypeError(f"x must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
    if x.is_complex():
        raise DtypeError(f"x has dtype {x.dtype}, but inputs are real")
    if x.ndim == 0:
        raise ShapeError("x is a scalar, but its first axis must be rows; use x.reshape(1, 1)")
    if not x.is_floating_point() or not x.numel():
        return
    rows = max(1, _CHECKED * x.shape[0] // x.numel())
    finite = sum(
        int(part.isfinite().flatten(1).all(1).sum()) if x.ndim > 1 else int(part.isfinite().sum())
        for part in x.detach().split(rows)
    )
    if finite < x.shape[0]:
        bad = x.shape[0] - finite
        raise ArgumentError(f"x has NaN or inf in {bad} of {x.shape[0]} rows; remove these rows or fill them")
