"""Perceptrons of the paper and of the methods it compares with: one function, and a table of each method's layers."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import log

from torch import nn

from whvi.errors import ArgumentError
from whvi.nn import MCDropout, MeanFieldLinear
from whvi.nn.structured import StructuredLayer
from whvi.nn.together import in_one_pass
from whvi.posterior import ConstantWeightVariance
from whvi_paper.baselines import (
    GaussianFactorsLinear,
    MatrixGaussianLinear,
    ProtocolMeanField,
    ProtocolWHVI,
    TensorFactorisedLinear,
)
from whvi_paper.networks.joined import Embedded, one_matrix, shared_g
from whvi_paper.networks.layers import WHVILinear

Layer = Callable[[int, int], nn.Module]
"""Makes a layer of so many inputs and outputs."""

FLOWS = 10
DROPOUT = 0.005
"""The paper's rate."""


def mean_field(inputs: int, outputs: int) -> nn.Module:
    """Mean field whose prior leaves the size of activations as it is: under N(0, 1) it prunes wide networks."""
    return MeanFieldLinear(inputs, outputs, prior_variance=1.0 / inputs)


def low_rank(inputs: int, outputs: int) -> GaussianFactorsLinear:
    """Gaussian factors of such a rank that they have about as many parameters as WHVI with four terms.

    >>> layers = low_rank(100, 128), WHVILinear(100, 128, terms=4)
    >>> [sum(p.numel() for p in layer.parameters()) for layer in layers]
    [2080, 2304]
    """
    wanted = sum(p.numel() for p in WHVILinear(inputs, outputs, terms=4, device="meta").parameters())
    rank = max(1, (wanted - 2 * outputs) // (2 * (inputs + outputs)))
    return GaussianFactorsLinear(inputs, outputs, rank, prior_variance=1.0 / inputs)


METHODS: dict[str, tuple[Layer, Layer]] = {
    "whvi": (WHVILinear, MeanFieldLinear),
    **{f"whvi-t{terms}": (partial(WHVILinear, terms=terms), MeanFieldLinear) for terms in (2, 4, 8)},
    "whvi-embed": (Embedded, MeanFieldLinear),
    "whvi-grid32": (partial(WHVILinear, layout="grid", block=32, share_g=False), MeanFieldLinear),
    "whvi-prior-1e-2": (partial(WHVILinear, prior_variance=1e-2), MeanFieldLinear),
    "whvi-prior-1e-5": (partial(WHVILinear, prior_variance=1e-5), MeanFieldLinear),
    "whvi-constant": (lambda i, o: WHVILinear(i, o, prior_variance=ConstantWeightVariance(2.0 / i)), MeanFieldLinear),
    "nf-whvi": (partial(WHVILinear, posterior=f"planar:{FLOWS}"), MeanFieldLinear),
    "mfg": (mean_field, mean_field),
    "whvi-protocol": (ProtocolWHVI, ProtocolMeanField),
    "whvi-protocol-he": (partial(ProtocolWHVI, he=True), ProtocolMeanField),
    "mfg-protocol": (ProtocolMeanField, ProtocolMeanField),
    "low-rank": (low_rank, mean_field),
    "mcd": (lambda i, o: MCDropout(nn.Linear(i, o), DROPOUT),) * 2,
    "nng": (lambda i, o: MatrixGaussianLinear(i, o, weight_variance=2.0 / i), MatrixGaussianLinear),
    "tensor": (TensorFactorisedLinear, MeanFieldLinear),
    "GH": (partial(WHVILinear, structure="GH"), MeanFieldLinear),
    "S_var H G H": (partial(WHVILinear, structure="SHGH", scales="diagonal"), MeanFieldLinear),
    "S_opt H G H": (partial(WHVILinear, structure="SHGH"), MeanFieldLinear),
    "S_var H G H S_var H": (partial(WHVILinear, structure="SHGHSH", scales="diagonal"), MeanFieldLinear),
    "S_opt H G H S_opt H": (partial(WHVILinear, structure="SHGHSH"), MeanFieldLinear),
    "S_var H G H S_var": (partial(WHVILinear, scales="diagonal"), MeanFieldLinear),
    "S_opt H G P H S_opt": (partial(WHVILinear, structure="SHGPHS"), MeanFieldLinear),
}
"""Name of a method: its hidden layers, and its last one. The paper's last layer under WHVI is mean field."""
JOINED: dict[str, Callable[[Sequence[int]], list[nn.Module]]] = {
    "whvi-shared-g": shared_g,
    "whvi-one-matrix": one_matrix,
}
"""Methods whose hidden layers are made together, from all sizes; the last one is mean field."""


def narrow(model: nn.Module, factor: float) -> None:
    """Let the posteriors of g, and those of low-rank factors, start with so many times smaller standard deviations.

    >>> layer = WHVILinear(2, 2)
    >>> narrow(layer, 10.0)
    >>> layer.g.log_std
    Parameter containing:
    tensor([-4.3026, -4.3026], requires_grad=True)
    """
    for layer in model.modules():
        parts = [layer.g] if isinstance(layer, StructuredLayer) else []
        parts += [layer.left, layer.right] if isinstance(layer, GaussianFactorsLinear) else []
        for part in parts:
            part.get_parameter("log_std").data -= log(factor)


def network(method: str, inputs: int, outputs: int, depth: int, width: int) -> nn.Sequential:
    """``depth`` hidden layers of ``width`` units with ReLU.

    >>> sum(p.numel() for p in network("whvi", 1, 1, 2, 128).parameters())  # and one of the noise: the paper's 1541
    1540
    """
    sizes = (inputs, *[width] * depth)
    if method in JOINED:
        return in_one_pass(_perceptron(JOINED[method](sizes), MeanFieldLinear(width, outputs)))
    if method not in METHODS:
        raise ArgumentError(f"method {method!r} is unknown; use one of: {', '.join((*METHODS, *JOINED))}")
    hidden, last = METHODS[method]
    return _perceptron([hidden(i, o) for i, o in pairwise(sizes)], last(width, outputs))


def _perceptron(hidden: Sequence[nn.Module], last: nn.Module) -> nn.Sequential:
    return nn.Sequential(*(part for layer in hidden for part in (layer, nn.ReLU())), last)
