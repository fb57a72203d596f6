"""An adapter as a folder: its tensors and its recipe under checksums, and which base it belongs to."""

from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn

from whvi.adapters.fingerprint import base_tensors, fingerprint, moving
from whvi.adapters.recipe import Recipe
from whvi.adapters.record import Record, add, check_free, record_of
from whvi.annotations import checked
from whvi.errors import ArgumentError, CheckpointError, UnsupportedError, WhviError
from whvi.io import checkpoint
from whvi.io.forged import check_kind, check_shapes, check_stated, not_as_saved
from whvi.nn.beside import slots
from whvi.nn.fingerprint import difference
from whvi.posterior import ConstantWeightVariance, GaussianPrior, Prior

FORMAT = "whvi adapter"
VERSION = 1
_DELTA, _BASE = "delta/", "base/"


@checked
def save_adapter(model: nn.Module, folder: str | PathLike[str], name: str | None = None) -> None:
    """Save an adapter to a folder, replacing an existing one.

    Args:
        model: adapted. Jointly trained parameters of the base (``train_base``) and running statistics of batch
            normalisation are saved too; for all others a digest is saved, by which ``load_adapter`` identifies the
            base.
        folder: created if missing; a safetensors file and a JSON file, no pickle.
        name: of the adapter; default the active one.

    Law: after load_adapter onto the base, predictions are the same.
    """
    record = record_of(model)
    name = record.active if name is None else name
    if name not in record.recipes:
        raise ArgumentError(f"this model has no adapter {name!r}; it has {', '.join(map(repr, record.recipes))}")
    recipe = record.recipes[name]
    changed = _changed(model, record, name)
    tensors = {_BASE + path: tensor for path, tensor in base_tensors(model) if path in changed}
    for path, _, slot in slots(model):
        if name in slot.deltas:
            tensors |= {f"{_DELTA}{path}/{key}": value for key, value in slot.deltas[name].state_dict().items()}
    state = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "recipe": _plain(recipe),
        "base": fingerprint(model, changed),
    }

    checkpoint.replace(folder, tensors, state)


@checked
def load_adapter(model: nn.Module, folder: str | PathLike[str], name: str | None = None) -> nn.Module:
    """Load a saved adapter onto its base model and activate it; returns the model.

    Args:
        model: with the base weights of the time of saving, adapted or not.
        folder: a folder of ``save_adapter``.
        name: for this adapter; default the saved one.

    A damaged file or an adapter of another base raises a ``CheckpointError``, and the model does not change.

    >>> from tempfile import TemporaryDirectory
    >>> from whvi.adapters import adapt, unload
    >>> model = adapt(nn.Linear(16, 16)).model
    >>> with TemporaryDirectory() as folder:
    ...     save_adapter(model, folder)
    ...     _ = load_adapter(unload(model), folder)
    """
    _, tensors, state = checkpoint.load(folder)
    other = "holds a checkpoint, but not of an adapter; give a folder of save_adapter"
    check_kind(folder, state, FORMAT, VERSION, other)
    if name is None and not isinstance(name := state.get("name"), str):
        raise CheckpointError(f"the adapter in {folder} has no name; give it one by name=")
    check_free(model, name)
    try:
        recipe, base, deltas = _read(model, tensors, state)
    except CheckpointError as error:
        raise CheckpointError(f"the adapter in {folder} cannot be used: {error}") from error
    except MemoryError:  # says nothing of the folder
        raise
    except Exception as error:  # what whvi did not write can fail in any way
        raise not_as_saved(folder, "an adapter", error) from error
    known = dict(base_tensors(model))
    with torch.no_grad():
        for path, value in base.items():
            known[path].copy_(value)
    add(model, name, recipe, deltas)
    return model


def _read(
    model: nn.Module, tensors: dict[str, Tensor], state: dict[str, Any]
) -> tuple[Recipe, dict[str, Tensor], dict[str, nn.Module]]:
    """The recipe, the tensors of the base that belong to the adapter, and the deltas by module; ``model`` is as before.

    No delta is made before its tensors have the shapes that the recipe asks for.
    """
    base = {key.removeprefix(_BASE): value for key, value in tensors.items() if key.startswith(_BASE)}
    if found := difference(state["base"], fingerprint(model, base)) or _misfits(base, dict(base_tensors(model))):
        raise CheckpointError(
            f"it belongs to another base; this model differs from it ({found}); load the weights that it was trained "
            "on into the model first, in the same dtype"
        )
    check_stated({name: state["recipe"][name] for name in ("posterior", "options")}, tensors)
    recipe = _recipe(state["recipe"])
    modules = dict(model.named_modules())
    deltas = {}
    with torch.random.fork_rng(devices=[]):  # what a fresh delta draws is overwritten
        for path in recipe.draws:
            own = f"{_DELTA}{path}/"
            numbers = {key.removeprefix(own): value for key, value in tensors.items() if key.startswith(own)}
            try:
                check_shapes(partial(recipe.outline, modules[path]), numbers)
                deltas[path] = recipe.delta(path, modules[path])
                deltas[path].load_state_dict(numbers)
            except (KeyError, RuntimeError, TypeError, WhviError) as error:
                raise CheckpointError(
                    f"it has no delta for {path or 'the model'} as it is here: {error!s:.300}"
                ) from error
    return recipe, base, deltas


def _changed(model: nn.Module, record: Record, name: str) -> set[str]:
    """Tensors of the base that belong to an adapter: what it trains along, and running statistics."""
    recipe, active = record.recipes[name], name == record.active
    return moving(model) | {
        path
        for path, p in model.named_parameters()
        if (path in record.trainable and recipe.trains(path)) or (active and p.requires_grad)
    }


def _misfits(base: dict[str, Tensor], known: dict[str, Tensor]) -> str:
    """Tensors of the file that the model cannot take, in words."""
    bad = [path for path, value in base.items() if path not in known or known[path].shape != value.shape]
    return f"no tensor of this shape: {', '.join(bad[:3])}" if bad else ""


def _plain(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON."""
    values = {"posterior": recipe.posterior, **recipe.options}
    for key, value in values.items():
        if not isinstance(value, str | int | float | bool | None):
            raise UnsupportedError(
                f"{key} of this adapter is a {type(value).__name__}; to save it, name it by a string"
            )
    prior, trained = recipe.prior_variance, recipe.train_base
    return {
        **{key: getattr(recipe, key) for key in ("posterior", "spread")},
        "prior_variance": _plain_prior(prior) if isinstance(prior, Prior) else prior,
        "train_base": trained if isinstance(trained, bool) else list(trained),
        "options": dict(recipe.options),
        "draws": dict(recipe.draws),
    }


def _plain_prior(prior: Prior) -> dict[str, Any]:
    if type(prior) is GaussianPrior:
        return {"kind": "gaussian", "variance": prior.initial_variance, "learned": prior.learned}
    if type(prior) is ConstantWeightVariance:
        return {"kind": "constant weight variance", "variance": prior.weight_variance}
    raise UnsupportedError(f"an adapter with a prior of the class {type(prior).__name__} cannot be saved")


def _recipe(values: dict[str, Any]) -> Recipe:
    trained, prior = values["train_base"], values["prior_variance"]
    if not (isinstance(trained, bool) or all(isinstance(name, str) for name in trained)):
        raise CheckpointError("its train_base must be true, false or a list of names")
    if isinstance(prior, dict):
        gaussian = prior["kind"] == "gaussian"
        prior = (
            GaussianPrior(prior["variance"], learned=prior["learned"])
            if gaussian
            else ConstantWeightVariance(prior["variance"])
        )
    recipe = Recipe(**{**values, "prior_variance": prior})
    return recipe if isinstance(trained, bool) else replace(recipe, train_base=tuple(trained))
