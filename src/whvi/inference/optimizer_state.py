"""The state of a torch optimizer as tensors and JSON."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from whvi.errors import UnsupportedError


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """All tensors of the state, by parameter and name."""
    return {
        f"optimiser.{index}.{name}": value
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def optimizer_numbers(optimizer: Optimizer) -> dict[str, Any]:
    """Everything else in the state. Settings of the groups are not state: the caller passes them again."""
    numbers: dict[str, Any] = {}
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            if isinstance(value, Tensor):
                continue
            if not isinstance(value, int | float | str | bool | None):
                raise UnsupportedError(
                    f"{type(optimizer).__name__} keeps a {type(value).__name__} ({name}), which a checkpoint cannot "
                    "hold; fit without one, or use another optimizer"
                )
            numbers[f"{index}.{name}"] = value
    return numbers


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
    """The state as it was."""
    state: dict[int, dict[str, Any]] = {}
    found = {name.removeprefix("optimiser."): value for name, value in tensors.items() if name.startswith("optimiser.")}
    for key, value in {**found, **numbers}.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
