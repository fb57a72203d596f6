"""What tells one run from another, so that a checkpoint is not resumed by a run it does not belong to."""

from collections.abc import Mapping
from typing import Any

from whvi.errors import CheckpointError
from whvi.nn.anatomy import differences


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: object) -> None:
    """Raise CheckpointError that names the first differences, if there are any."""
    found = differences(saved, now)
    if found:
        raise CheckpointError(
            f"the checkpoint in {folder} belongs to another run: {'; '.join(found[:3])}. "
            "Choose another folder, or remove this one to start anew"
        )
