"""nn.LSTM and nn.GRU with deltas: their matrices are weights, not modules, so deltas are added to those."""

from typing import Any

from torch import Tensor, nn

from whvi.nn.base import BayesianLayer
from whvi.nn.beside import SLOT, plus
from whvi.nn.draws import Draws
from whvi.nn.recurrent import run


class AdaptedLSTM(nn.LSTM):
    """What the class of an adapted nn.LSTM is changed to, and back: torch's forward with other weights.

    Law: under a fixed draw, forward == nn.LSTM with ``recurrent_sums(self, draws)`` for its weights.
    """

    def forward(self, x: Any, hx: Any = None) -> Any:
        """As nn.LSTM."""
        return _forward(self, nn.LSTM, x, hx)


class AdaptedGRU(nn.GRU):
    """The same of an nn.GRU."""

    def forward(self, x: Any, hx: Any = None) -> Any:
        """As nn.GRU."""
        return _forward(self, nn.GRU, x, hx)


def recurrent_sums(network: nn.RNNBase, draws: Draws) -> dict[str, Tensor]:
    """The weights with their deltas at draws of one shape, or at the mean, by the names of the parameters."""
    layers = dict(getattr(network, SLOT).delta.items())
    return {
        f"weight_{name}": plus(network.get_parameter(f"weight_{name}"), layer.weight_at(draws[layer]))
        for name, layer in layers.items()
    }


def _forward(network: nn.RNNBase, kind: type[nn.RNNBase], x: Any, hx: Any) -> Any:
    delta: nn.ModuleDict | None = getattr(network, SLOT).delta
    if delta is None:
        return kind.forward(network, x, hx)
    layers = [layer for layer in delta.values() if isinstance(layer, BayesianLayer)]

    def weights(draws: Draws) -> list[Tensor]:
        changed = recurrent_sums(network, draws)
        return [changed.get(name, own) for name, own in network.named_parameters(recurse=False)]

    return run(network, network, layers, weights, x, hx)
