"""A pass of a whole model in which layers that share a random vector draw it once."""

import inspect
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

from torch import nn

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.draws import Draws, fixed_draws, fixing
from whvi.nn.model import bayesian_layers
from whvi.nn.structured import StructuredLayer
from whvi.nn.ties import sharing, tied
from whvi.posterior import ConstantWeightVariance

Module = TypeVar("Module", bound=nn.Module)


@checked
def share_g(model: Module, layers: str | Iterable[str] | None = None) -> Module:
    """Make structured layers of a model share one g: one posterior, one draw in each pass, one KL term.

    Args:
        model: it is changed in place and returned. Call this before you create an optimizer.
        layers: names or patterns of names (``"blocks.*.linear1"``; a name includes its submodules); default all
            structured layers. The g of the first is used. Each needs a g of the same shape, with the same kind of
            posterior and the same prior, and the same ``draws``.

    Each layer keeps its own scales and bias. From then on ``model(x)`` draws shared vectors once, as do
    ``whvi.fit``, ``elbo``, ``predict`` and ``sampling``. A layer that shares its g cannot be
    called alone, outside of the model, ``whvi.sampling`` and ``whvi.mean_mode``. Layers that share their g
    already (``b.g = a.g``) can be given, too.

    With ``draws="example"`` each example has its own draw, the same in all layers, so their inputs must have the
    same leading axes.

    >>> import torch
    >>> from whvi.nn import WHVILinear, kl
    >>> model = share_g(nn.Sequential(WHVILinear(8, 8, bias=False), nn.ReLU(), WHVILinear(8, 8, bias=False)))
    >>> model[2].g is model[0].g, bool(kl(model) == model[0].kl())
    (True, True)
    >>> model(torch.randn(5, 8)).shape
    torch.Size([5, 8])
    """
    chosen = _chosen(model, layers)
    (name, first), *others = chosen.items()
    for other, layer in others:
        if found := _obstacle(first, layer):
            raise ArgumentError(f"layers {name!r} and {other!r} cannot share g: {found}; name layers that can")
    for _, layer in others:
        layer.g, layer.prior = first.g, first.prior
    return in_one_pass(model)


def in_one_pass(model: Module) -> Module:
    """Make ``model(x)`` draw shared vectors once; returns the model.

    The forward of the model is replaced. Hooks would leave draws fixed after Ctrl-C. Copies and
    pickles of the model keep the new forward.
    """
    if _one_pass(model) is None:
        before = vars(model).get("forward")
        one_pass = partial(_forward_in_one_pass, model, before)  # torch.export takes a partial, and no other object
        vars(one_pass)["__signature__"] = inspect.signature(model.forward)
        model.forward = one_pass
    return model


def in_separate_passes(model: Module) -> Module:
    """The opposite: restore the original forward of the model."""
    if (found := _one_pass(model)) is not None:
        del model.forward
        if found.args[1] is not None:
            model.forward = found.args[1]
    return model


def _one_pass(model: nn.Module) -> partial[Any] | None:
    forward = vars(model).get("forward")
    return forward if isinstance(forward, partial) and forward.func is _forward_in_one_pass else None


def _forward_in_one_pass(model: nn.Module, before: Callable[..., Any] | None, *args: Any, **options: Any) -> Any:
    """The output of a model with one draw of shared vectors; ``before`` is an earlier replaced forward, if any."""
    with fixing(joint_draws(model)):
        return type(model).forward(model, *args, **options) if before is None else before(*args, **options)


def joint_draws(model: nn.Module, samples: int = 1, rows: int | None = None) -> Draws:
    """The draws that layers cannot make alone in a pass over the repeated batch; fixed draws stay.

    Args:
        model: with any Bayesian layers.
        samples: how often the batch is repeated.
        rows: of the batch repeated, where structured layers that draw for each example shall do so for each row, and
            not for each of its positions.
    """
    known = fixed_draws() or {}
    layers = [layer for layer in bayesian_layers(model) if layer not in known]
    together = sharing(layers)
    one_each = () if samples == 1 else (samples,)  # one draw for each repeat, not one for all
    by_row = {layer for layer in layers if rows and layer.draws == "example" and isinstance(layer, StructuredLayer)}
    each_row = None if rows is None else (rows,)
    return tied(
        {
            layer: layer.draw(one_each if layer.draws == "batch" else each_row if layer in by_row else None)
            for layer in layers
            if layer in together or layer in by_row or (layer.draws == "batch" and samples > 1)
        }
    )


def _chosen(model: nn.Module, wanted: str | Iterable[str] | None) -> dict[str, StructuredLayer]:
    """The layers to share, by name."""
    bayesian_layers(model)  # refuses what is no single model
    known = {name: layer for name, layer in model.named_modules() if isinstance(layer, StructuredLayer)}
    words = ("*",) if wanted is None else (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for word in words:
        if not isinstance(word, str):
            raise InputTypeError(f"layers must be names or patterns of names, got {word!r}")
        if not any(named(name, word) for name in known):
            raise ArgumentError(f"no structured layer is called {word!r}; there are: {', '.join(known) or 'none'}")
    found = {name: layer for name, layer in known.items() if any(named(name, word) for word in words)}
    if len(found) < 2:
        raise ArgumentError(f"g is shared by two layers or more, but {len(found)} of this model was chosen")
    return found


def _obstacle(first: StructuredLayer, layer: StructuredLayer) -> str:
    """The reason why a layer cannot have the g of the first, if there is one."""
    if layer.draws != first.draws:
        return f"one has draws={first.draws!r} and the other draws={layer.draws!r}"
    if found := differences(anatomy(first.prior, "prior"), anatomy(layer.prior, "prior")):
        return f"the priors differ, {found[0]}"
    if layer.g is first.g:
        return ""
    if isinstance(first.prior, ConstantWeightVariance):
        return "under ConstantWeightVariance it has another prior in each layer"
    if layer.g.mean.shape != first.g.mean.shape:
        return f"it has shape {tuple(first.g.mean.shape)} in one and {tuple(layer.g.mean.shape)} in the other"
    if layer.g.mean.device != first.g.mean.device:
        return f"it is on {first.g.mean.device} in one and on {layer.g.mean.device} in the other"
    if found := differences(anatomy(first.g, "g"), anatomy(layer.g, "g")):
        return f"the posteriors differ, {found[0]}"
    return ""


def named(name: str, pattern: str) -> bool:
    """A name, all names below it, or a pattern such as "layers.*.linear1"."""
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")
