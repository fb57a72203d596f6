"""From a Bayesian model back to plain layers, for deployment."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.convert.attention import BayesianAttention, dense_attention
from whvi.convert.bayesianize import exchange
from whvi.convert.conversion import forget
from whvi.convert.recurrent import dense_recurrent
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.nn.base import BayesianLayer
from whvi.nn.beside import slots
from whvi.nn.conv1d import OneAxis
from whvi.nn.draws import Draw, Draws
from whvi.nn.geometry import ConvGeometry, TransposedGeometry, geometry_of
from whvi.nn.model import bayesian_layers
from whvi.nn.recurrent import Recurrent
from whvi.nn.structured import StructuredLayer
from whvi.nn.ties import tied
from whvi.nn.together import in_separate_passes

Plain = nn.Linear | nn.Conv1d | nn.Conv2d | nn.ConvTranspose1d | nn.ConvTranspose2d
"""What stands in the place of a layer."""


@checked
def to_dense(model: nn.Module, draw: str | int | torch.Generator | Draws | None = None) -> nn.Module:
    """A copy of the model with nn.Linear, convolutions and nn.MultiheadAttention in place of Bayesian layers.

    Args:
        model: with any Bayesian layers of this library.
        draw: None or "mean": the posterior mean of every weight; a seed or a generator: one draw with it;
            or the draws of ``whvi.sampling``.

    The network with the mean weights is not the mean of the predictive distribution, and has no uncertainty.

    Law: to_dense(model)(x) == model(x) in ``whvi.mean_mode``, and to_dense(model, draws)(x) == model(x) under
    ``whvi.sampling(model, draws)``; a seed s is ``whvi.sampling(model, 1, torch.Generator().manual_seed(s))``.

    >>> from whvi.nn import WHVILinear
    >>> to_dense(nn.Sequential(WHVILinear(8, 4), nn.ReLU()))
    Sequential(
      (0): Linear(in_features=8, out_features=4, bias=True)
      (1): ReLU()
    )
    """
    draws = plain_draws(model, draw)
    if any(slots(model)):
        raise UnsupportedError("this model has adapters; use whvi.adapters.merge(model, draw)")
    new: dict[nn.Module, nn.Module] = {}
    ties = Ties()
    inside: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, BayesianAttention) and all(isinstance(p, BayesianLayer) for p in module.children()):
            new[module] = dense_attention(module, draws)
            inside |= set(module.children())
        elif isinstance(module, Recurrent):
            new[module] = dense_recurrent(module, draws)
            inside |= set(module.modules())
        elif isinstance(module, BayesianLayer) and module not in inside:
            new[module] = ties.keep(module, _plain(module, draws[module]))
    plain = in_separate_passes(exchange(model, new, inplace=False))
    forget(plain)
    return plain


class Ties:
    """Remembers parameters by the posteriors they come from: what shared these shares them."""

    def __init__(self) -> None:
        self._known: dict[tuple[nn.Module, ...], Tensor] = {}

    def keep(self, layer: BayesianLayer, plain: Plain) -> nn.Module:
        """The plain layer, with parameters of an earlier one where both posteriors and numbers are the same."""
        if isinstance(layer, StructuredLayer):
            plain.weight = self._first((layer.g, *layer.scales), plain.weight)
            if layer.bias is not None and plain.bias is not None:
                plain.bias = self._first((layer.bias,), plain.bias)
        return plain

    def _first(self, source: tuple[nn.Module, ...], own: Tensor) -> Tensor:
        known = self._known.setdefault(source, own)
        return known if torch.equal(known, own) else own


def _plain(layer: BayesianLayer, draw: Draw | None) -> Plain:
    """The plain layer with the weight at a draw."""
    weight, bias = layer.weight_at(draw).detach(), layer.bias_value(draw)
    like = next(layer.parameters())
    options: dict[str, Any] = {"bias": bias is not None, "device": like.device, "dtype": like.dtype}
    geometry = getattr(layer, "geometry", None)
    plain: Plain
    if isinstance(layer, OneAxis):
        across = {
            name: value[1] if isinstance(value, tuple) else value for name, value in geometry_of(layer.geometry).items()
        }
        kind = nn.ConvTranspose1d if isinstance(layer.geometry, TransposedGeometry) else nn.Conv1d
        plain = kind(**across, **options)
    elif isinstance(geometry, TransposedGeometry):
        plain = nn.ConvTranspose2d(**geometry_of(geometry), **options)
    elif isinstance(geometry, ConvGeometry) and weight.ndim == 4:
        plain = nn.Conv2d(**{**geometry_of(geometry), "out_channels": weight.shape[0]}, **options)
    elif geometry is None and weight.ndim == 2:
        plain = nn.Linear(weight.shape[1], weight.shape[0], **options)
    else:
        raise UnsupportedError(f"{type(layer).__name__} has a weight of shape {tuple(weight.shape)}, no plain layer's")
    with torch.no_grad():
        plain.weight.copy_(weight)
        if plain.bias is not None and isinstance(bias, Tensor):
            plain.bias.copy_(bias)
    return plain


def plain_draws(model: nn.Module, draw: str | int | torch.Generator | Draws | None) -> Draws:
    """A draw, or None for the mean, of each layer."""
    layers = bayesian_layers(model)
    if draw is None or draw == "mean":
        return dict.fromkeys(layers)
    if isinstance(draw, int) and not isinstance(draw, bool):
        draw = torch.Generator().manual_seed(draw)
    if isinstance(draw, torch.Generator):
        return tied({layer: layer.draw((), draw) for layer in layers})
    if not isinstance(draw, Mapping):
        raise InputTypeError(f"draw must be None, 'mean', a seed, a generator or draws of this model, got {draw!r}")
    missing = sum(layer not in draw for layer in layers)
    if missing:
        raise ArgumentError(f"draws lack {missing} of the {len(layers)} Bayesian layers of this model")
    several = [one.shape for one in draw.values() if one is not None and one.shape != ()]
    if several:
        raise ArgumentError(
            f"a plain layer needs one weight, but the draws have shape {several[0]}; use sampling(model)"
        )
    return draw
