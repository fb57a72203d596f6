"""Checks of the inputs of metrics: each function returns them in float64, or raises an error."""

import torch
from torch import Tensor

from whvi.errors import ArgumentError, DeviceError, DtypeError, InputTypeError, ShapeError

SUM_TOLERANCE = 1e-3
"""By how much probabilities may miss a sum of one."""


def numbers(name: str, x: object, *, infinite: bool = False) -> Tensor:
    """x in float64: at least one axis, no axis empty, no NaN; infinities only where they have a meaning.

    >>> numbers("y", torch.tensor([0.5, torch.nan]))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: y has 1 NaN among its 2 values; every row must have a finite value
    """
    tensor = _tensor(name, x)
    if tensor.is_complex():
        raise DtypeError(f"{name} has dtype {tensor.dtype}, but must be real")
    if tensor.ndim == 0:
        raise ShapeError(f"{name} is a scalar, but must have one value for each row; use {name}.reshape(1)")
    if tensor.numel() == 0:
        raise ShapeError(f"{name} is empty (shape {tuple(tensor.shape)}); a metric needs at least one row")
    wide = tensor.double()
    kinds = {"NaN": wide.isnan()} if infinite else {"NaN": wide.isnan(), "infinity": wide.isinf()}
    for kind, found in kinds.items():
        if count := int(found.sum()):
            wanted = "value that is not NaN" if infinite else "finite value"
            raise ArgumentError(
                f"{name} has {count} {kind} among its {wide.numel()} values; every row must have a {wanted}"
            )
    return wide


def vector(name: str, x: object, *, infinite: bool = False) -> Tensor:
    """The same, of shape (N).

    >>> vector("loss", torch.ones(3, 1))
    Traceback (most recent call last):
    ...
    whvi.errors.ShapeError: loss must have shape (N,), one value for each row, got (3, 1)
    """
    wide = numbers(name, x, infinite=infinite)
    if wide.ndim != 1:
        raise ShapeError(f"{name} must have shape (N,), one value for each row, got {tuple(wide.shape)}")
    return wide


def alike(name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    """Both have one shape and one device: nothing is broadcast, since (N, 1) with (N,) would make (N, N)."""
    if x.shape != other.shape:
        raise ShapeError(
            f"{name} has shape {tuple(x.shape)}, but {other_name} has {tuple(other.shape)}; the two must be the same: "
            "use reshape"
        )
    same_device(name, x, other_name, other)


def same_device(name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    """Both live in one place."""
    if x.device != other.device:
        raise DeviceError(f"{name} is on {x.device}, but {other_name} is on {other.device}; use .to(device)")


def at_least(name: str, x: Tensor, least: float) -> None:
    """No element is below ``least``."""
    if bool((x < least).any()):
        raise ArgumentError(f"{name} must be at least {least:g}, but holds {float(x.min()):g}")


def within_one(name: str, x: Tensor) -> None:
    """All elements lie in [0, 1]."""
    if bool(((x < 0) | (x > 1)).any()):
        raise ArgumentError(f"{name} must lie in [0, 1], but reaches from {float(x.min()):g} to {float(x.max()):g}")


def ordered(low: Tensor, high: Tensor) -> None:
    """No interval is upside down."""
    if count := int((low > high).sum()):
        raise ArgumentError(f"low is above high in {count} of {low.numel()} intervals; swap low and high")


def forecast(probabilities: object, labels: object) -> tuple[Tensor, Tensor]:
    """Probabilities (N, C) of the classes, in float64, and the class (N) of each row, in int64.

    >>> forecast(torch.tensor([[0.5, 0.5]]), torch.tensor([2]))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: labels must be from 0 to 1, one for each of 2 columns, but reach from 2 to 2
    """
    narrow = _tensor("probabilities", probabilities)
    wide = numbers("probabilities", narrow)
    if wide.ndim != 2:
        raise ShapeError(
            f"probabilities must have shape (N, C), rows by classes, got {tuple(wide.shape)}; for two classes use "
            "torch.stack([1 - p, p], dim=-1)"
        )
    if not narrow.is_floating_point():
        raise DtypeError(f"probabilities have dtype {narrow.dtype}, but must be floating point")
    within = SUM_TOLERANCE + torch.finfo(narrow.dtype).eps  # bfloat16 alone may miss one by 0.4 %
    sums = wide.sum(dim=-1)
    worst = float(sums[(sums - 1.0).abs().argmax()])
    if bool((wide < 0).any()) or abs(worst - 1.0) > within:
        raise ArgumentError(
            f"each row of probabilities must be non-negative with sum 1, but the smallest is {float(wide.min()):g} and "
            f"one sum is {worst:g}; take the softmax of logits first"
        )
    return wide, _classes(labels, wide)


def _classes(labels: object, probabilities: Tensor) -> Tensor:
    """The classes as int64: one for each row, each the number of a column."""
    classes = _tensor("labels", labels)
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise DtypeError(f"labels have dtype {classes.dtype}, but must be integers; use labels.long()")
    rows, columns = probabilities.shape
    if classes.shape != (rows,):
        raise ShapeError(
            f"labels must have shape ({rows},), one class for each row of probabilities, got {tuple(classes.shape)}"
        )
    same_device("labels", classes, "probabilities", probabilities)
    if bool(((classes < 0) | (classes >= columns)).any()):
        raise ArgumentError(
            f"labels must be from 0 to {columns - 1}, one for each of {columns} columns, but reach from "
            f"{int(classes.min())} to {int(classes.max())}"
        )
    return classes.long()


def _tensor(name: str, x: object) -> Tensor:
    if not isinstance(x, Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
    return x
