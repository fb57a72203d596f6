"""An estimator as a checkpoint: tensors and JSON under checksums, whole or absent, never a pickle."""

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from whvi.errors import CheckpointError
from whvi.io import checkpoint
from whvi.io.forged import check_kind, check_shapes, not_as_saved
from whvi.scaling import Scaling
from whvi.sklearn import described
from whvi.sklearn.parameters import checked
from whvi.sklearn.training import OptimizerState

FORMAT = "whvi estimator"
VERSION = 1
_SCALINGS = ("x_scaling_", "y_scaling_")
_MODULES = ("model_", "likelihood_")
_BEFORE = {"n_members": 1, "terms": 1, "compile": False, "calibrate": False}
"""Parameters that earlier versions did not have, as they trained."""
Estimator = TypeVar("Estimator")


def save(estimator: Any, folder: str | PathLike[str]) -> None:
    """Save a fitted estimator to a folder, replacing an existing one."""
    tensors = {f"{part}.{k}": v for part in _MODULES for k, v in getattr(estimator, part).state_dict().items()}
    for part in _SCALINGS:
        scaling: Scaling = getattr(estimator, part)
        tensors |= {f"{part}.mean": torch.from_numpy(scaling.mean), f"{part}.scale": torch.from_numpy(scaling.scale)}
    optimizer: OptimizerState | None = estimator._optimizer
    state = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {name: _json(value) for name, value in estimator.get_params(deep=False).items()},
        "plain": {name: getattr(estimator, name) for name in described.PLAIN if hasattr(estimator, name)},
        "arrays": {
            name: described.packed(getattr(estimator, name)) for name in described.ARRAYS if hasattr(estimator, name)
        },
        "optimiser": None if optimizer is None else optimizer[1],
    }
    all_tensors = tensors | ({} if optimizer is None else optimizer[0])
    kind = type(estimator).__name__
    checkpoint.replace(folder, all_tensors, state, lambda held: _check_replaced(folder, held, kind))


def load(kind: type[Estimator], folder: str | PathLike[str]) -> Estimator:
    """The estimator of a folder, which must be of that kind."""
    _, tensors, state = checkpoint.load(folder)
    _check_kind(folder, state, kind.__name__)
    try:
        return cast(Estimator, _made(kind, tensors, state))
    except MemoryError:  # says nothing of the folder
        raise
    except Exception as error:  # what whvi did not write can fail in any way
        raise not_as_saved(folder, "an estimator", error) from error


def _made(kind: Callable[..., Any], tensors: dict[str, Tensor], state: dict[str, Any]) -> Any:
    parameters = {**_BEFORE, **state["parameters"]}
    if isinstance(parameters["hidden_layer_sizes"], list):
        parameters["hidden_layer_sizes"] = tuple(parameters["hidden_layer_sizes"])
    estimator = kind(**parameters)
    checked(estimator)
    for name, value in described.plain(state["plain"]).items():
        setattr(estimator, name, value)
    for name, value in described.arrays(state["arrays"]).items():
        setattr(estimator, name, value)
    for part in _SCALINGS:
        setattr(estimator, part, Scaling(tensors[f"{part}.mean"].numpy(), tensors[f"{part}.scale"].numpy()))
    described.check_fits(estimator, tensors)
    own = {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] in _MODULES}
    check_shapes(lambda: _modules(estimator), own)
    modules = _modules(estimator)
    estimator._finish()
    modules.load_state_dict(own)
    optimizer = {name: tensor for name, tensor in tensors.items() if name.startswith("optimiser.")}
    estimator._optimizer = None if state["optimiser"] is None else (optimizer, state["optimiser"])
    return estimator


def _modules(estimator: Any) -> nn.ModuleDict:
    """The network and the likelihood of an estimator, made anew."""
    estimator._build()
    return nn.ModuleDict({part: getattr(estimator, part) for part in _MODULES})


def _check_kind(folder: str | PathLike[str], state: dict[str, Any], wanted: str) -> None:
    other = "holds a checkpoint, but not of an estimator; give a folder that save wrote"
    check_kind(folder, state, FORMAT, VERSION, other)
    found = str(state.get("estimator"))[:40]
    if found != wanted:
        raise CheckpointError(f"{folder} must hold a {wanted}, got a {found}; use {found}.load")


def _check_replaced(folder: str | PathLike[str], state: dict[str, Any], wanted: str) -> None:
    if (found := state.get("estimator")) != wanted:
        raise CheckpointError(f"{folder} holds a {found}, which a {wanted} would replace; save to another folder")


def _json(value: Any) -> Any:
    """A parameter as JSON holds it: numpy's numbers as plain ones, a random generator as None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    return [_json(part) for part in value] if isinstance(value, list | tuple | np.ndarray) else value
