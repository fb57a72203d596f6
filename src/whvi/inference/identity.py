"""The identity of a run, so that a checkpoint is not resumed by another run."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from whvi.errors import CheckpointError
from whvi.nn.anatomy import differences
from whvi.nn.fingerprint import difference, of_tensors


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: object) -> None:
    """Raise CheckpointError that names the first differences, if there are any."""
    found = differences(saved, now)
    if found:
        raise CheckpointError(
            f"the checkpoint in {folder} belongs to another run: {'; '.join(found[:3])}. "
            "Choose another folder, or remove this one to start anew"
        )


def check_frozen(modules: Mapping[str, nn.Module], tensors: Mapping[str, Tensor], folder: object) -> None:
    """Raise CheckpointError unless the parameters that no run changes are those of the checkpoint."""
    own = {f"{prefix}.{name}": p for prefix, module in modules.items() for name, p in module.named_parameters()}
    frozen = {name: p for name, p in own.items() if not p.requires_grad and name in tensors}
    if found := difference(of_tensors((name, tensors[name]) for name in frozen), of_tensors(frozen.items())):
        raise another_start(found, folder)


def another_start(found: str, folder: object) -> CheckpointError:
    """The error for a model with other initial weights than the run of a checkpoint."""
    return CheckpointError(
        f"the checkpoint in {folder} belongs to a model that began with other weights ({found}). To resume, build the "
        "model as it was built then, with the same torch.manual_seed before it and the same pretrained weights; for "
        "another model choose another folder, or remove this one to start anew"
    )
