"""Perceptrons of the paper and of the methods it compares with: one function, and a table of each method's layers."""

from collections.abc import Callable
from itertools import pairwise

from torch import nn

from whvi.errors import ArgumentError
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi_paper.baselines import MatrixGaussianLinear, TensorFactorisedLinear

Layer = Callable[[int, int], nn.Module]
"""Makes a layer of so many inputs and outputs."""

FLOWS = 10
DROPOUT = 0.005
"""The paper's rate."""


def structured(structure: str = "SHGHS", scales: str = "optimised", posterior: str = "diagonal") -> Layer:
    """WHVI layers of a structure; their scales are "optimised" or have a posterior of their own."""
    return lambda inputs, outputs: WHVILinear(inputs, outputs, structure=structure, scales=scales, posterior=posterior)


def mean_field(inputs: int, outputs: int) -> nn.Module:
    """Mean field whose prior leaves the size of activations as it is: under N(0, 1) it prunes wide networks."""
    return MeanFieldLinear(inputs, outputs, prior_variance=1.0 / inputs)


METHODS: dict[str, tuple[Layer, Layer]] = {
    "whvi": (structured(), MeanFieldLinear),
    "nf-whvi": (structured(posterior=f"planar:{FLOWS}"), MeanFieldLinear),
    "mfg": (mean_field, mean_field),
    "mcd": (lambda i, o: MCDropout(nn.Linear(i, o), DROPOUT),) * 2,
    "nng": (lambda i, o: MatrixGaussianLinear(i, o, weight_variance=2.0 / i), MatrixGaussianLinear),
    "tensor": (TensorFactorisedLinear, MeanFieldLinear),
    "GH": (structured("GH"), MeanFieldLinear),
    "S_var H G H": (structured("SHGH", "diagonal"), MeanFieldLinear),
    "S_opt H G H": (structured("SHGH"), MeanFieldLinear),
    "S_var H G H S_var H": (structured("SHGHSH", "diagonal"), MeanFieldLinear),
    "S_opt H G H S_opt H": (structured("SHGHSH"), MeanFieldLinear),
    "S_var H G H S_var": (structured(scales="diagonal"), MeanFieldLinear),
}
"""Name of a method: its hidden layers, and its last one. The paper's last layer under WHVI is mean field."""


def network(method: str, inputs: int, outputs: int, depth: int, width: int) -> nn.Sequential:
    """``depth`` hidden layers of ``width`` units with ReLU.

    >>> sum(p.numel() for p in network("whvi", 1, 1, 2, 128).parameters())  # and one of the noise: the paper's 1541
    1540
    """
    if method not in METHODS:
        raise ArgumentError(f"method {method!r} is not known; use one of: {', '.join(METHODS)}")
    hidden, last = METHODS[method]
    sizes = (inputs, *[width] * depth)
    layers = [part for i, o in pairwise(sizes) for part in (hidden(i, o), nn.ReLU())]
    return nn.Sequential(*layers, last(width, outputs))
