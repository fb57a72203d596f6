"""One function of an adapted model as plain weights, for deployment."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from whvi.adapters.attention import sums
from whvi.adapters.recipe import layers_of
from whvi.adapters.record import record_of, unload
from whvi.adapters.recurrent import recurrent_sums
from whvi.adapters.targets import targets
from whvi.annotations import checked
from whvi.convert.dense import plain_draws
from whvi.convert.layers import transposed
from whvi.errors import ArgumentError, UnsupportedError
from whvi.nn.beside import plus, slots
from whvi.nn.draws import Draws


@checked
def merge(
    model: nn.Module, draw: str | int | torch.Generator | Draws | None = None, *, inplace: bool = False
) -> nn.Module:
    """The dense model with the deltas of the active adapter added to its weights, at their mean or at one draw.

    Args:
        model: adapted.
        draw: as for ``to_dense``: None for the mean, a seed, a generator, or the draws of ``whvi.sampling``.
        inplace: change the model itself and remove all its adapters; otherwise a copy.

    A merged weight that was tied to another one, such as that of an embedding, becomes a separate parameter. A weight
    that is not plain floating point, such as a quantised one, raises an error, and the model does not change.

    Law: merge(model)(x) == model(x) in ``whvi.mean_mode``, up to rounding of the weights.

    >>> from whvi.adapters import adapt
    >>> merge(adapt(nn.Linear(16, 16)).model)
    Linear(in_features=16, out_features=16, bias=True)
    """
    if record_of(model).active is None:
        raise ArgumentError("no adapter of this model is active; choose one with whvi.adapters.use(model, name)")
    draws = plain_draws(model, draw)
    with torch.no_grad():
        weights = {path: _merged(path, module, draws) for path, module, slot in slots(model) if slot.delta is not None}
    plain = unload(model if inplace else deepcopy(model))
    modules = dict(plain.named_modules())
    for path, parameters in weights.items():
        for name, weight in parameters.items():
            inner, _, last = name.rpartition(".")
            owner = modules[path].get_submodule(inner)
            old = getattr(owner, last)
            setattr(owner, last, nn.Parameter(weight.detach().clone(), requires_grad=old.requires_grad))
    return plain


def _merged(path: str, module: nn.Module, draws: Draws) -> dict[str, Tensor]:
    """The new values of the parameters of a module, by name."""
    own = dict(module.named_parameters())
    if isinstance(module, nn.MultiheadAttention):
        found = sums(module, draws)
    elif isinstance(module, nn.RNNBase):
        found = recurrent_sums(module, draws)
    else:
        (slot,) = (slot for name, _, slot in slots(module) if not name)
        assert slot.delta is not None
        ((_, layer),) = layers_of(slot.delta)
        delta = layer.weight_at(draws[layer])
        base = targets(module)[""].weight
        found = {} if base is None else {"weight": plus(base, delta.mT if transposed(module) else delta)}
    if not found or not own.keys() >= found.keys():
        raise UnsupportedError(
            f"{path or 'the model'}: the weight of this {type(module).__name__} is not a plain tensor, so "
            "nothing can be added to it; keep the delta separate, or merge into a model that is not quantised"
        )
    return found
