"""A model with Bayesian layers as a folder: its tensors, and the recipe by which ``bayesianize`` made it."""

import secrets
import shutil
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.convert.bayesianize import bayesianize
from whvi.convert.conversion import Conversion, conversions
from whvi.convert.layers import size_after
from whvi.convert.rules import as_layers
from whvi.errors import ArgumentError, CheckpointError, InputTypeError, UnsupportedError, WhviError
from whvi.io import atomic, canonical, packing
from whvi.io import folder as sealed
from whvi.io.forged import check_kind
from whvi.nn.beside import slots
from whvi.nn.model import bayesian_layers

FORMAT = "whvi model"
VERSION = 1
TENSORS, RECIPE = "model.safetensors", "recipe.json"


@checked
def save_model(model: nn.Module, folder: str | PathLike[str]) -> None:
    """Save a model to a folder, replacing an existing one.

    Args:
        model: made by ``bayesianize``, or built with Bayesian layers by hand.
        folder: created if missing; a safetensors file, a JSON file with the recipe of the conversion, and a
            manifest with the sizes and hashes of both. No pickle.

    Law: load_model with the model before ``bayesianize`` restores it bit for bit.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if any(slots(model)):
        raise UnsupportedError("this model has adapters; use whvi.save_adapter(model, folder)")
    bayesian_layers(model)  # refuses what is no single model
    for name, part in model.named_modules():
        if name and conversions(part):
            raise UnsupportedError(f"only {name} of this model was converted; save model.{name}")
    recipe = {
        "format": FORMAT,
        "version": VERSION,
        "conversions": [conversion.plain() for conversion in conversions(model)],
    }
    place = Path(folder).absolute()
    _check_free(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name[:32]}.{secrets.token_hex(8)}{atomic.TEMPORARY_SUFFIX}")
    try:
        atomic.write_bytes(new / TENSORS, packing.pack(_tensors(model)))
        atomic.write_bytes(new / RECIPE, canonical.dump(recipe, name="the recipe"))
        sealed.seal(new)
        sealed.put(new, place, replace=True)
    except BaseException:  # an interrupt must not leave a part of it either
        shutil.rmtree(new, ignore_errors=True)
        raise


@checked
def load_model(model: nn.Module, folder: str | PathLike[str]) -> nn.Module:
    """Load a saved model, given one as before ``bayesianize``, which is not changed.

    Args:
        model: of the same architecture and precision, with any weights, such as ``Model.from_config(config)``. One that
            already has its Bayesian layers, built by hand, only gets the weights.
        folder: a folder of ``save_model``.

    A damaged file, or one of another model, raises a ``CheckpointError``.

    >>> from tempfile import TemporaryDirectory
    >>> dense = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    >>> with TemporaryDirectory() as folder:
    ...     save_model(bayesianize(dense).model, folder)
    ...     type(load_model(dense, folder)[2]).__name__
    'WHVILinear'
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    return sealed.read(Path(folder).absolute(), lambda place: _load(model, place))


def _load(model: nn.Module, folder: Path) -> nn.Module:
    if not (folder / RECIPE).is_file():
        raise CheckpointError(f"{folder} holds no {RECIPE}; give a folder that whvi.save_model wrote")
    sealed.check(folder)
    try:
        recipe = canonical.parse((folder / RECIPE).read_bytes())
        tensors = packing.unpack((folder / TENSORS).read_bytes())
    except ArgumentError as error:
        raise CheckpointError(f"{folder} cannot be read: {error}") from error
    check_kind(folder, recipe, FORMAT, VERSION, "holds no model that whvi.save_model wrote")
    made = deepcopy(model)
    try:
        if not conversions(made):
            with torch.random.fork_rng(devices=[]):  # what a fresh layer draws is overwritten
                for value in recipe["conversions"]:
                    made = _converted(made, Conversion.of(value), tensors)
    except CheckpointError:
        raise
    except (AttributeError, KeyError, TypeError, WhviError) as error:
        raise CheckpointError(f"the recipe in {folder} does not fit this model: {error}") from error
    _take(made, tensors, folder)
    return made


def _converted(model: nn.Module, conversion: Conversion, tensors: dict[str, Tensor]) -> nn.Module:
    """The model after a conversion; layers larger than their tensors, as a forged recipe may ask for, are not made."""
    modules, names = dict(model.named_modules()), set(conversion.layers)
    if missing := [name for name in conversion.layers if name not in modules]:
        raise CheckpointError(f"it has no module {missing[0]!r}, which was replaced; give the model before bayesianize")
    for name in conversion.layers:
        own = f"{name}." if name else ""
        there = sum(tensor.numel() for key, tensor in tensors.items() if key.startswith(own))
        wanted = sum(size_after(part, conversion.options) for part in as_layers(modules[name]))
        if wanted > 2 * there:  # a frozen bias has half of the numbers that one that is learned would have
            raise CheckpointError(f"{name or 'the model'} needs {wanted} numbers, but the file has {there}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in conversion.frozen)
    arguments: dict[str, Any] = vars(conversion.options)
    return bayesianize(model, rule=lambda name, module: name in names, inplace="" not in names, **arguments).model


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """What ``state_dict`` has in tensors; all else is an error."""
    state = model.state_dict()
    if others := [name for name, value in state.items() if not isinstance(value, Tensor)]:
        raise UnsupportedError(f"the state of this model must contain only tensors, got {', '.join(others[:3])}")
    return state


def _take(model: nn.Module, tensors: dict[str, Tensor], folder: Path) -> None:
    """Give the model its numbers, all of them and nothing else."""
    own = _tensors(model)
    found = {
        "missing in the file": sorted(own.keys() - tensors.keys()),
        "unknown to the model": sorted(tensors.keys() - own.keys()),
        "of another shape": [name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape],
        "of another dtype": [name for name in own.keys() & tensors.keys() if own[name].dtype != tensors[name].dtype],
    }
    if bad := [f"{what}: {', '.join(names[:3])}" for what, names in found.items() if names]:
        raise CheckpointError(
            f"the model in {folder} is another one ({'; '.join(bad)}); give the model as it was before bayesianize, in "
            "the same precision"
        )
    model.load_state_dict(tensors)


def _check_free(place: Path) -> None:
    """Raise the error of a place where something else stands."""
    found = sealed.standing(place)
    folder = found.is_dir() and not found.is_symlink()
    ours = folder and ((found / RECIPE).is_file() or not any(found.iterdir()))
    if (found.exists() or found.is_symlink()) and not ours:
        raise CheckpointError(f"{place} is not a folder of whvi.save_model and is not replaced; choose another folder")
