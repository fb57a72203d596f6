"""Recurrent networks as Bayesian ones, and back."""

from typing import Any

import torch
from torch import Tensor, nn

from whvi.convert.attention import joint_error
from whvi.convert.layers import Made, Maker
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draws
from whvi.nn.recurrent import RECURRENT, SIZES, Recurrent, matrices


def make_recurrent(network: nn.RNNBase, maker: Maker) -> tuple[Recurrent, float | None]:
    """The Bayesian twin, and how far its mean weights are from the dense ones, all together."""
    made: list[Made] = []

    def make(name: str, plain: nn.RNNBase) -> BayesianLayer:
        made.append(maker.linear(*matrix(network, name)))
        return made[-1].layer

    twin = RECURRENT[type(network)](**sizes_of(network), make=make)
    return twin, joint_error([matrix(network, name)[0] for name in matrices(network)], made)


def matrix(network: nn.RNNBase, name: str) -> tuple[Tensor, Tensor | None]:
    """A weight of a recurrent network and its bias."""
    bias: Tensor | None = getattr(network, f"bias_{name}", None)
    return network.get_parameter(f"weight_{name}"), bias


def dense_recurrent(network: Recurrent, draws: Draws) -> nn.RNNBase:
    """Torch's recurrent network with the weights of the layers at their draws (None for the mean)."""
    like = next(network.parameters())
    dense = network.kind(**sizes_of(network.plain), device=like.device, dtype=like.dtype)
    with torch.no_grad():
        for (_, parameter), value in zip(dense.named_parameters(), network.weights(draws), strict=True):
            parameter.copy_(value)
    return dense


def sizes_of(network: nn.RNNBase) -> dict[str, Any]:
    """Arguments of the class of torch."""
    return {name: getattr(network, name) for name in SIZES if name != "proj_size" or network.proj_size}
