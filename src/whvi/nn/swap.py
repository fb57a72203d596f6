"""Calls of a module with other tensors, also if modules and parameters are shared."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


def own_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name, each once."""
    yield from chain(module.named_parameters(), module.named_buffers())


def frozen(tensor: Tensor) -> bool:
    """Whether it is a frozen parameter."""
    return isinstance(tensor, nn.Parameter) and not tensor.requires_grad


def share_frozen(module: nn.Module, owner: nn.Module) -> None:
    """Replace the frozen parameters of a module by those of a like one where they are equal, which then are there once.

    >>> one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> _ = other.load_state_dict(one.requires_grad_(False).state_dict()), other.requires_grad_(False)
    >>> share_frozen(other, one)
    >>> other.weight is one.weight
    True
    """
    held, own = dict(owner.named_parameters()), dict(module.named_parameters())
    for place, name in places(module).items():
        if name in own and frozen(own[name]) and name in held and _equal(own[name], held[name]):
            path, _, leaf = place.rpartition(".")
            module.get_submodule(path).register_parameter(leaf, held[name])


def _equal(one: Tensor, other: Tensor) -> bool:
    same = frozen(other) and type(one) is type(other) is nn.Parameter
    alike = (one.dtype, one.device, one.shape) == (other.dtype, other.device, other.shape)
    return same and alike and (one is other or torch.equal(one, other))


def copied(module: nn.Module) -> dict[str, Tensor]:
    """Copies of parameters and buffers, for ``give_back``."""
    return {name: tensor.detach().clone() for name, tensor in own_tensors(module)}


@torch.no_grad()
def give_back(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy values into parameters and buffers, in place."""
    for name, tensor in own_tensors(module):
        tensor.copy_(tensors[name])


def places(module: nn.Module, names: Mapping[int, str] | None = None) -> dict[str, str]:
    """All places of a tensor, once in each module, and the name of the tensor: tied tensors have several places.

    Args:
        module: with parameters and buffers.
        names: by id of the tensor; default those of ``own_tensors``.

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> other = nn.Linear(2, 2, bias=False)
    >>> other.weight = layer.weight
    >>> places(nn.Sequential(layer, layer, other))
    {'0.weight': '0.weight', '2.weight': '0.weight'}
    """
    known = {id(tensor): name for name, tensor in own_tensors(module)} if names is None else names
    found = {}
    for path, part in module.named_modules():
        parameters = part.named_parameters(recurse=False, remove_duplicate=False)
        buffers = part.named_buffers(recurse=False, remove_duplicate=False)
        for name, tensor in chain(parameters, buffers):
            found[f"{path}.{name}" if path else name] = known[id(tensor)]
    return found


def call_with(
    module: nn.Module, where: Mapping[str, str], tensors: Mapping[str, Tensor], *arguments: Any, **keywords: Any
) -> Any:
    """``module(*arguments, **keywords)`` with other tensors, by name, at all their places.

    ``functional_call`` with its own search for ties replaces the tensors of a module with two names twice, and leaves
    the wrong ones behind.

    Args:
        module: it is unchanged afterwards.
        where: from ``places``.
        tensors: the replacements.
    """
    placed = {place: tensors[name] for place, name in where.items() if name in tensors}
    return functional_call(module, placed, arguments, keywords, tie_weights=False)
