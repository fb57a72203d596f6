"""An ensemble as a folder: tensors and JSON under checksums, whole or absent, never a pickle."""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, CheckpointError, InputTypeError
from whvi.io import checkpoint
from whvi.io.forged import check_kind
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.fingerprint import difference, of_tensors

if TYPE_CHECKING:  # it has these as methods
    from whvi.ensemble.networks import Ensemble

FORMAT = "whvi ensemble"
VERSION = 1
Kind = TypeVar("Kind", bound="Ensemble")


def save(ensemble: "Ensemble", folder: str | PathLike[str], common: bool) -> None:
    """Save an ensemble to a folder, replacing an existing one."""
    parts = ensemble.stacks() if common else {n: s for n, s in ensemble.stacks().items() if n != "common"}
    tensors = {f"{part}.{name}": tensor for part, stack in parts.items() for name, tensor in stack.tensors().items()}
    state = {
        "format": FORMAT,
        "version": VERSION,
        "common": of_tensors(ensemble.common_state.tensors().items()),
        **_described(ensemble),
    }

    checkpoint.replace(folder, tensors, state)


def load(
    kind: type[Kind],
    folder: str | PathLike[str],
    make_model: Callable[[], nn.Module],
    likelihood: Likelihood | None,
) -> Kind:
    """The ensemble of a folder, of that architecture."""
    if isinstance(make_model, nn.Module) or not callable(make_model):
        raise InputTypeError(f"make_model must be a function that returns a model, got {type(make_model).__name__}")
    _, tensors, state = checkpoint.load(folder)
    other = "holds a checkpoint, but not of an ensemble; give a folder that save wrote"
    check_kind(folder, state, FORMAT, VERSION, other)
    with torch.random.fork_rng():
        model = make_model()
    own, likelihoods, common = (_below(part, tensors) for part in ("model.", "likelihood.", "common."))
    held = dict(model.named_parameters())
    common = {name: common.get(name, held.get(name, torch.empty(0)).detach()) for name in state["common"]}
    if found := difference(state["common"], of_tensors(common.items())):
        raise CheckpointError(
            f"the ensemble in {folder} has members around another base ({found}); let make_model load the weights that "
            "it was trained on, or save with common=True"
        )
    if (likelihood is None) != (state["likelihood"] is None):
        there = "no likelihoods" if state["likelihood"] is None else "likelihoods"
        raise CheckpointError(f"the ensemble in {folder} has {there}, but likelihood is {likelihood!r}")
    try:
        ensemble = kind.from_states(model, own, likelihood, likelihoods or None, common=common)
    except ArgumentError as error:
        raise CheckpointError(f"the ensemble in {folder} is of another architecture: {error}") from error
    if found := "; ".join(differences({k: state[k] for k in ("model", "likelihood")}, _described(ensemble))[:3]):
        raise CheckpointError(f"the ensemble in {folder} is of another architecture: {found}")
    return ensemble


def _described(ensemble: "Ensemble") -> dict[str, Any]:
    likelihood = ensemble.likelihood_kind
    return {
        "model": anatomy(ensemble.architecture),
        "likelihood": None if likelihood is None else anatomy(likelihood, "likelihood"),
    }


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
