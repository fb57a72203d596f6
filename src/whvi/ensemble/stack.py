"""Tensors of several modules of one architecture as one for each name."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.swap import frozen, own_tensors

Module = TypeVar("Module", bound=nn.Module)


class Stack(nn.Module):
    """Tensors (M, ...) by names that may have dots in them, which those of nn.Module may not."""

    def __init__(self, tensors: Mapping[str, Tensor], like: nn.Module) -> None:
        super().__init__()
        needs_grad = {name: parameter.requires_grad for name, parameter in like.named_parameters()}
        # A module may have a "-" in its name: that has another word, so that no two names become one.
        self._names = {name: name.replace("%", "%25").replace("-", "%2D").replace(".", "-") for name in tensors}
        for name, tensor in tensors.items():
            if name in needs_grad:
                self.register_parameter(self._names[name], nn.Parameter(tensor.detach(), needs_grad[name]))
            else:
                self.register_buffer(self._names[name], tensor.detach())

    def tensors(self, members: slice | Sequence[int] | None = None) -> dict[str, Tensor]:
        """The tensors by name, all members or some."""
        found = {name: getattr(self, own) for name, own in self._names.items()}
        if members is None:
            return found
        index = members if isinstance(members, slice) else torch.tensor(members)
        return {name: tensor[index] for name, tensor in found.items()}


def rebuilt(module: Module, tensors: Mapping[str, Tensor]) -> Module:
    """A copy of a module with other parameters and buffers in it, which may have any shape.

    >>> doubled = rebuilt(nn.Linear(2, 1), {"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
    >>> doubled(torch.ones(1, 2)).item()
    2.0
    """
    memo: dict[int, object] = {}  # what ``deepcopy`` holds for copied already
    for name, own in own_tensors(module):
        new = tensors[name]
        memo[id(own)] = nn.Parameter(new, own.requires_grad) if isinstance(own, nn.Parameter) else new
    return deepcopy(module, memo)


def check_kinds(name: str, modules: object, kind: type) -> None:
    """Raise the error that says what is wrong with a list of modules, if anything is."""
    if not isinstance(modules, Sequence | nn.ModuleList):
        raise InputTypeError(f"{name} must be a list of {kind.__name__}, got {type(modules).__name__}")
    if not len(modules):
        raise ArgumentError(f"{name} is empty; give at least one member")
    for module in modules:
        if not isinstance(module, kind):
            raise InputTypeError(f"{name} must be a list of {kind.__name__}, but one is a {type(module).__name__}")
        if type(module) is not type(modules[0]):
            one, other = type(modules[0]).__name__, type(module).__name__
            raise ArgumentError(f"{name} must be of one architecture, but one is a {one} and another a {other}")


def stacked(modules: Sequence[nn.Module], kind: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of modules of one architecture, copied into one for each name; and a copy of those that are common.

    Common are frozen parameters that all modules have as one object, such as the base of several adapters.
    """
    states = [dict(own_tensors(module)) for module in modules]
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
    for i, other in enumerate(shapes):
        if other != shapes[0]:
            name = next(n for n in {**shapes[0], **other} if shapes[0].get(n) != other.get(n))
            raise ShapeError(
                f"members must be of one architecture, but {name} is {_plain(shapes[0].get(name))} in member 0 and "
                f"{_plain(other.get(name))} in member {i}"
            )
    first = anatomy(modules[0], kind)
    for i, module in enumerate(modules):
        if module is not modules[0] and (found := differences(first, anatomy(module, kind))):
            raise ArgumentError(
                f"members may differ in the values of their tensors only, but from member 0 to {i}, {found[0]}"
            )
    common = {
        name
        for name, tensor in states[0].items()
        if len(states) > 1 and frozen(tensor) and all(state[name] is tensor for state in states)
    }
    own = {name: torch.stack([s[name].detach() for s in states]) for name in states[0] if name not in common}
    return own, {name: states[0][name].detach().clone() for name in states[0] if name in common}


def _plain(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(tuple(shape))


def complete(
    module: nn.Module, states: Mapping[str, Tensor], size: int, common: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """``states``, with buffers that are the same for all members added; without what is in ``common``."""
    own = {name: tensor for name, tensor in own_tensors(module) if name not in (common or {})}
    needed = {name for name, _ in module.named_parameters() if name in own}
    missing, unknown = sorted(needed - set(states)), sorted(set(states) - set(own))
    if missing or unknown:
        raise ArgumentError(
            f"states must name the tensors of {type(module).__name__}; missing: {missing or 'none'}, unknown: "
            f"{unknown or 'none'}"
        )
    for name, tensor in states.items():
        if tensor.shape != (size, *own[name].shape) or not size:
            raise ShapeError(
                f"{name} must have shape {(size, *own[name].shape)}, got {tuple(tensor.shape)}: the first "
                "axis counts the members, at least one, and is equal for all names"
            )
    return {name: states[name] if name in states else repeat(tensor, size) for name, tensor in own.items()}


def repeat(tensor: Tensor, size: int) -> Tensor:
    """The same for all members, each with its own: (...) -> (size, ...)."""
    return tensor.detach().expand(size, *tensor.shape).clone()
