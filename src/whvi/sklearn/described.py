"""What the JSON of a saved estimator may say: nothing but these names, each with values that make sense."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from torch import Tensor

from whvi.arguments import any_whole_number, number, positive_number, whole_number
from whvi.errors import CheckpointError, ShapeError
from whvi.io.forged import check_stated
from whvi.scaling import Array
from whvi.sklearn.calibration import Sureness

ARRAYS = ("classes_", "feature_names_in_", "spread_")
_CURVES = {"step", "elbo", "validation_mnll"}
_ARCHITECTURE = {"hidden_layer_sizes", "n_members", "posterior", "terms", "layout", "block", "noise", "pad_to", "last"}
_NUMERIC = "biuf"


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The plain attributes, if they are those of an estimator."""
    _only(values, PLAIN)
    return {name: PLAIN[name](name, value) for name, value in values.items()}


def packed(values: Array) -> dict[str, Any]:
    """An array as JSON holds it."""
    return {"dtype": values.dtype.str if values.dtype != object else "object", "values": values.tolist()}


def arrays(found: dict[str, Any]) -> dict[str, Array]:
    """The arrays, of one axis each.

    Texts are as wide as the longest; a dtype that the file names could make them as wide as memory.
    """
    _only(found, ARRAYS)
    made = {name: _unpacked(**entry) for name, entry in found.items()}
    for name, array in made.items():
        if array.ndim != 1 or not all(isinstance(value, bool | int | float | str) for value in array.tolist()):
            raise CheckpointError(f"{name} must be a list of numbers or strings")
    return made


def check_fits(estimator: Any, tensors: dict[str, Tensor]) -> None:
    """Raise the CheckpointError of an estimator whose numbers do not belong together, before its network is made."""
    features, outputs = estimator.n_features_in_, 1
    if is_classifier(estimator):
        if not np.array_equal(np.unique(estimator.classes_), estimator.classes_):
            raise CheckpointError("its classes must be different and sorted")
    else:
        outputs = estimator.n_outputs_
        _check_numbers("spread_", estimator.spread_, outputs, positive=True)
    check_stated({**estimator._architecture, "features": features, "outputs": outputs}, tensors)
    if (members := estimator._architecture.get("n_members", 1)) > len(tensors):
        raise CheckpointError(f"it states {members!r:.20} members, but has only {len(tensors)} tensors")
    for part, length in ("x_scaling_", features), ("y_scaling_", outputs):
        for name, positive in ("mean", False), ("scale", True):
            _check_numbers(f"{part}.{name}", tensors[f"{part}.{name}"].numpy(), length, positive=positive)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and len(names) != features:
        raise ShapeError(f"it has {len(names)} names for {features} features")


def _check_numbers(name: str, values: Array, length: int, *, positive: bool) -> None:
    if values.shape != (length,) or values.dtype.kind not in _NUMERIC:
        raise ShapeError(f"{name} must have {length} numbers, got shape {values.shape}")
    if not np.isfinite(values).all() or (positive and not (values > 0.0).all()):
        raise CheckpointError(f"{name} has numbers that are not {'positive and ' * positive}finite")


def _unpacked(dtype: str, values: list[Any]) -> Array:
    if dtype == "object":
        return np.array(values, dtype=object)
    kind = np.dtype(dtype)
    if kind.kind == "U":
        return np.array(values, dtype=str)
    if kind.kind not in _NUMERIC or kind.shape:
        raise CheckpointError(f"its arrays must be numbers, booleans or strings, got {dtype:.40}")
    return np.array(values, dtype=kind)


def _only(values: dict[str, Any], known: Any) -> None:
    if unknown := sorted(values.keys() - set(known)):
        raise CheckpointError(f"it sets {unknown[0]:.80}, which an estimator never saves")


def _curves(name: str, value: dict[str, Any]) -> dict[str, list[float]]:
    if value.keys() != _CURVES or len({len(curve) for curve in value.values()}) != 1:
        raise CheckpointError(f"{name} must have the curves {', '.join(sorted(_CURVES))}, all of one length")
    return {curve: [_kept(number, name, entry) for entry in entries] for curve, entries in value.items()}


def _kept(check: Any, name: str, value: Any) -> Any:
    """The value itself, as it was saved, if it passes a check."""
    check(name, value)
    return value


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise CheckpointError(f"{name} must be true or false, got {value!r:.40}")
    return value


def _sureness(temperature: Any, lapse: Any) -> Sureness:
    if not 0.0 <= number("lapse", lapse) <= 1.0:
        raise CheckpointError(f"its share of uninformative labels must be 0 to 1, got {lapse!r:.40}")
    return Sureness(positive_number("temperature", temperature), lapse)


def _architecture(name: str, value: dict[str, Any]) -> dict[str, Any]:
    _only(value, _ARCHITECTURE)
    for size in value["hidden_layer_sizes"]:
        whole_number("hidden_layer_sizes", size)
    _truth("last", value.get("last", False))
    return value


PLAIN = {
    "seed_": any_whole_number,
    "history_": _curves,
    "n_rows_seen_": lambda name, value: _kept(number, name, value),
    "n_features_in_": whole_number,
    "n_outputs_": whole_number,
    "sureness_": lambda name, value: _sureness(*value),
    "_flat": _truth,
    "_architecture": _architecture,
}
"""What an estimator keeps as plain values, and the check of each."""
