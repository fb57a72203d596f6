"""Recurrent networks whose weight matrices are Bayesian layers, drawn once for a whole sequence."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from whvi.errors import UnsupportedError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draws
from whvi.nn.linear import WHVILinear
from whvi.nn.parts import in_precision_of
from whvi.nn.stand_in import Standing, draws_of_call, parts_of_call
from whvi.ops.torch_private import flat_weights, vmap_levels

SIZES = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size")
"""Arguments of torch's recurrent networks."""
Make = Callable[[str, nn.RNNBase], BayesianLayer]
"""From the name of a matrix, such as "ih_l0" for ``weight_ih_l0`` and ``bias_ih_l0``, to its layer."""


class Recurrent(nn.Module):
    """The base class of WHVILSTM and WHVIGRU: torch's recurrent network with weights that layers draw.

    Args:
        sizes: as for the class of torch, by position or by name.
        make: creates the layer of each matrix; default ``WHVILinear`` with the options.
        options: of ``WHVILinear``; by default ``draws`` is "batch", and ``weight_variance`` is torch's, 1 / (3
            hidden_size).

    The matrices are built for each draw and passed to torch. One draw for all sequences is one call; S draws,
    or a draw for each sequence (``draws="example"``), are as many calls, each for its part of the batch.

    Law: under a fixed draw, forward == torch's network with ``weights(draws)``, in value and gradient.
    """

    kind: type[nn.RNNBase]

    def __init__(self, *sizes: Any, make: Make | None = None, **options: Any) -> None:
        super().__init__()
        own: dict[str, Any] = {name: options.pop(name) for name in SIZES if name in options}
        plain = self.kind(*sizes, **{**own, "device": "meta"})
        options = {"draws": "batch", "weight_variance": 1 / (3 * plain.hidden_size), **options}
        make = make or (lambda name, plain: _layer(name, plain, options))
        self.layers = nn.ModuleDict({name: make(name, plain) for name in matrices(plain)})
        self._plain = (plain,)  # no part of this module: it has sizes, and no numbers

    @property
    def plain(self) -> nn.RNNBase:
        """Torch's network of these sizes, on the meta device."""
        return self._plain[0]

    @property
    def batch_first(self) -> bool:
        """Whether sequences come before time."""
        return self.plain.batch_first

    def weights(self, draws: Draws) -> list[Tensor]:
        """All weights at draws of the layers, in the order of torch's parameters."""
        found = {}
        for name, layer in self.layers.items():
            assert isinstance(layer, BayesianLayer)
            found[f"weight_{name}"] = layer.weight_at(draws[layer])
            bias = layer.bias_value(draws[layer])
            if bias is not None:
                found[f"bias_{name}"] = bias
        return [found[name] for name, _ in self.plain.named_parameters()]

    def forward(self, x: Any, hx: Any = None) -> tuple[Any, Any]:
        """Like torch's: maps a tensor or a PackedSequence and a state to all outputs and the last state."""
        return run(self, self.plain, list(self.layers.values()), self.weights, x, hx)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return self.plain.extra_repr()


class WHVILSTM(Recurrent):
    """nn.LSTM whose matrices are W = A diag(g) B, drawn once for each call.

    Args:
        sizes, options: see ``Recurrent``; those of torch are input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional and proj_size.

    Shapes: as nn.LSTM, (L, N, in) -> (L, N, hidden) and the states (h, c); N first with ``batch_first=True``.

    Law: under a fixed draw it is nn.LSTM with the weights of that draw; its KL counts every matrix once, whatever the
    length of the sequences.

    >>> layer = WHVILSTM(16, 32, batch_first=True)
    >>> y, (h, c) = layer(torch.randn(5, 7, 16))
    >>> y.shape, h.shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([5, 7, 32]), torch.Size([1, 5, 32]), 1120)
    """

    kind = nn.LSTM


class WHVIGRU(Recurrent):
    """nn.GRU whose matrices are W = A diag(g) B, drawn once for each call; all as for ``WHVILSTM``.

    >>> y, h = WHVIGRU(16, 32)(torch.randn(7, 5, 16))
    >>> y.shape, h.shape
    (torch.Size([7, 5, 32]), torch.Size([1, 5, 32]))
    """

    kind = nn.GRU


RECURRENT: dict[type[nn.RNNBase], type[Recurrent]] = {nn.LSTM: WHVILSTM, nn.GRU: WHVIGRU}
"""The Bayesian class of each kind."""


def matrices(plain: nn.RNNBase) -> list[str]:
    """The matrices of a recurrent network, by what their parameters are called after "weight_".

    >>> matrices(nn.GRU(2, 3, 2))
    ['ih_l0', 'hh_l0', 'ih_l1', 'hh_l1']
    """
    names = [name for name, _ in plain.named_parameters(recurse=False)]
    return [name.removeprefix("weight_") for name in names if name.startswith("weight_")]


def run(
    module: nn.Module,
    plain: nn.RNNBase,
    layers: Sequence[Any],
    weights: Callable[[Draws], list[Tensor]],
    x: Any,
    hx: Any,
) -> tuple[Any, Any]:
    """Torch's forward with the weights of a call: at once, or part by part of the batch where there are several draws.

    Args:
        module: its training flag applies.
        plain: torch's network, for its sizes.
        layers: the layers that draw.
        weights: all of them at draws; with S draws those that draw have S in front.
    """
    if vmap_levels():
        raise UnsupportedError(
            f"torch has no batching rule for {type(plain).__name__}, so models with one cannot be trained at once; "
            "fit them one by one with whvi.fit"
        )
    packed = isinstance(x, PackedSequence)
    data = x.data if packed else x
    axis = 0 if plain.batch_first else 1
    batched = not packed and x.ndim == 3
    sequences = x.shape[axis] if batched else 1
    draws = draws_of_call(layers, sequences)
    count = parts_of_call(draws, sequences, batched)
    found = [in_precision_of(data, weight) for weight in weights(draws)]
    own_axes = [parameter.ndim for parameter in plain.parameters(recurse=False)]
    kind = next(kind for kind in RECURRENT if isinstance(plain, kind))

    def call(own: list[Tensor], x: Any, hx: Any) -> tuple[Any, Any]:
        stand_in: Any = Standing(plain, training=module.training, **flat_weights(plain, own))
        for name in ("check_input", "check_forward_args"):  # which look at the dtype of the weights
            setattr(stand_in, name, partial(getattr(kind, name), stand_in))
        y: tuple[Any, Any] = kind.forward(stand_in, x, hx)
        return y

    if count is None:
        return call(found, x, hx)
    states = [None] * count if hx is None else _chunks(hx, count)
    parts = [
        call([w[i] if w.ndim > axes else w for w, axes in zip(found, own_axes, strict=True)], *pair)
        for i, pair in enumerate(zip(x.chunk(count, axis), states, strict=True))
    ]
    outputs, last = zip(*parts, strict=True)
    joint = (
        torch.cat(last, 1) if isinstance(last[0], Tensor) else tuple(torch.cat(s, 1) for s in zip(*last, strict=True))
    )
    return torch.cat(outputs, axis), joint


def _chunks(state: Any, count: int) -> list[Any]:
    """A state, or the two of an LSTM, in parts of the batch."""
    if isinstance(state, Tensor):
        return list(state.chunk(count, 1))
    return list(zip(*(part.chunk(count, 1) for part in state), strict=True))


def _layer(name: str, plain: nn.RNNBase, options: dict[str, Any]) -> WHVILinear:
    outputs, inputs = plain.get_parameter(f"weight_{name}").shape
    options = {"bias": plain.bias and hasattr(plain, f"bias_{name}"), **options}
    return WHVILinear(inputs, outputs, **options)
