"""Random vectors that several layers share: all layers use one draw."""

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from torch import Tensor, nn
from torch.compiler import is_compiling

from whvi.errors import ArgumentError, UnsupportedError
from whvi.nn.draws import Draw
from whvi.posterior import Point, Posterior

if TYPE_CHECKING:
    from whvi.nn.base import BayesianLayer

_users: WeakKeyDictionary[Posterior, WeakSet["BayesianLayer"]] = WeakKeyDictionary()
"""The layers that once had a posterior. Some may have another one by now, so this is only a hint."""
_writing = threading.Lock()


def tied(draws: Mapping["BayesianLayer", Draw]) -> dict[nn.Module, Draw | None]:
    """The draws, in the order of the model, where a posterior that several layers share has one: that of the first.

    Law: layers with the same g and scales have the same weight, and all other vectors stay independent.

    >>> import torch
    >>> from whvi.nn import WHVILinear
    >>> one, other = WHVILinear(4, 4), WHVILinear(4, 4)
    >>> other.g, other.scales = one.g, one.scales
    >>> draws = tied({layer: layer.draw() for layer in (one, other)})
    >>> torch.equal(one.weight_at(draws[one]), other.weight_at(draws[other]))
    True
    """
    owners: dict[Posterior, tuple[Draw, int]] = {}
    found: dict[nn.Module, Draw | None] = {}
    for layer, draw in draws.items():
        shared: dict[Posterior, tuple[Tensor, int]] = {}
        for vector, stream in layer.vectors().items():
            first, place = owners.setdefault(vector, (draw, stream))
            if first is draw:
                continue
            if first.shape != draw.shape:
                raise ArgumentError(
                    f"layers share a {type(vector).__name__}, but some draw it for each example and others for the "
                    'batch, so that there is no common draw; give all of them draws="example", or "batch"'
                )
            shared[vector] = first.seed, place
        found[layer] = draw._replace(shared=shared) if shared else draw
    return found


def sharing(layers: Iterable["BayesianLayer"]) -> set["BayesianLayer"]:
    """The layers that share a posterior with another layer."""
    users: dict[Posterior, list[BayesianLayer]] = {}
    for layer in layers:
        for vector in layer.vectors():
            users.setdefault(vector, []).append(layer)
    return {layer for several in users.values() if len(several) > 1 for layer in several}


def note_user(layer: "BayesianLayer", given: nn.Module) -> None:
    """Record that a layer got the posteriors of a module, and which layers may share one from now on."""
    posteriors = [part for part in given.modules() if isinstance(part, Posterior) and not isinstance(part, Point)]
    with _writing:
        for posterior in posteriors:
            users = _users.setdefault(posterior, WeakSet())
            users.add(layer)
            if len(users) > 1:
                for user in users:
                    user._may_share = True


def check_alone(layer: "BayesianLayer") -> None:
    """Raise an error if a layer would draw a shared vector alone."""
    if not layer._may_share:
        return
    if not is_compiling():  # a graph cannot look: there the layers that may share count as layers that do
        with _writing:
            known = {user for vector in layer.vectors() for user in _users.get(vector, ())}
        if layer not in sharing(known | {layer}):
            layer._may_share = False
            return
    raise UnsupportedError(
        f"this {type(layer).__name__} shares a random vector with another layer, and they must draw it once, which one "
        "layer cannot know: call whvi.share_g(model) once, and then model(x) as a whole; or call it within "
        "whvi.sampling(model) or whvi.mean_mode(model)"
    )
