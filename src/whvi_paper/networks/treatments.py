"""How the weights of a network are treated: one way of inference for its linear maps, one for its filters."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from torch import nn

from whvi.errors import ArgumentError, InputTypeError
from whvi.nn import MCDropout, MeanFieldConv2d, MeanFieldLinear
from whvi_paper.baselines import LowRankMCDropoutConv2d, MatrixGaussianConv2d, MatrixGaussianLinear
from whvi_paper.networks.layers import WHVIConv2d, WHVILinear

MakeLinear = Callable[[int, int], nn.Module]
"""Inputs and outputs -> a layer."""
MakeFilters = Callable[..., nn.Module]
"""Input and output channels, ``kernel_size``, ``stride``, ``padding`` -> a layer."""

Dense = TypeVar("Dense", nn.Linear, nn.Conv2d)

DROPOUT = 0.005
"""The paper's rate."""
FLOWS = 3
"""Planar flows of "nf-whvi", as in the paper's convolutional networks."""


class Treatment(NamedTuple):
    """What makes the layers of a network."""

    linear: MakeLinear
    filters: MakeFilters


def dense_linear(inputs: int, outputs: int) -> nn.Linear:
    """nn.Linear from He's start, like all others here, and a bias of zero."""
    return _from_he(nn.Linear(inputs, outputs))


def dense_filters(inputs: int, outputs: int, kernel_size: int, **options: Any) -> nn.Conv2d:
    """nn.Conv2d from He's start and a bias of zero."""
    return _from_he(nn.Conv2d(inputs, outputs, kernel_size, **options))


def low_rank_filters(
    inputs: int, outputs: int, kernel_size: int, *, bias: bool = True, **options: Any
) -> LowRankMCDropoutConv2d:
    """MC dropout on filters of so low a rank that they have about as many parameters as those under WHVI.

    >>> sizes = [sum(p.numel() for p in make(64, 64, 3).parameters()) for make in (low_rank_filters, WHVIConv2d)]
    >>> sizes
    [3904, 4224]
    """
    wanted = sum(p.numel() for p in WHVIConv2d(inputs, outputs, kernel_size, bias=bias, device="meta").parameters())
    rank = max(1, (wanted - bias * outputs) // (inputs * kernel_size**2 + outputs))
    return LowRankMCDropoutConv2d(inputs, outputs, kernel_size, rank, bias=bias, p=DROPOUT, **options)


def mean_field_filters(inputs: int, outputs: int, kernel_size: int, **options: Any) -> MeanFieldConv2d:
    """Under a prior that leaves the size of activations as it is, as in perceptrons: N(0, 1) prunes wide layers."""
    seen = inputs * kernel_size**2
    return MeanFieldConv2d(
        inputs, outputs, kernel_size, weight_variance=2.0 / seen, prior_variance=1.0 / seen, **options
    )


def matrix_gaussian_filters(
    inputs: int, outputs: int, kernel_size: int, *, bias: bool = True, **options: Any
) -> MatrixGaussianConv2d:
    """With a draw for each example, as all filters before batch normalisation; without a bias, which it takes away."""
    variance = 2.0 / (inputs * kernel_size**2)
    return MatrixGaussianConv2d(
        inputs, outputs, kernel_size, weight_variance=variance, bias=False, draws="example", **options
    )


LINEAR: dict[str, MakeLinear] = {
    "dense": dense_linear,
    "mfg": lambda i, o: MeanFieldLinear(i, o, weight_variance=2.0 / i, prior_variance=1.0 / i),
    "mcd": lambda i, o: MCDropout(dense_linear(i, o), DROPOUT),
    "nng": lambda i, o: MatrixGaussianLinear(i, o, weight_variance=2.0 / i),
    "whvi": WHVILinear,
    "nf-whvi": partial(WHVILinear, posterior=f"planar:{FLOWS}"),
}
"""Ways to treat a linear map, by name."""

FILTERS: dict[str, MakeFilters] = {
    "dense": dense_filters,
    "mfg": mean_field_filters,
    "mcd": lambda i, o, k, **more: MCDropout(dense_filters(i, o, k, **more), DROPOUT),
    "nng": matrix_gaussian_filters,
    "whvi": WHVIConv2d,
    "whvi-own-g": partial(WHVIConv2d, share_g=False),
    "whvi-t4": partial(WHVIConv2d, terms=4),
    "whvi-SHGHSH": partial(WHVIConv2d, structure="SHGHSH"),
    "low-rank-mcd": low_rank_filters,
}
"""Ways to treat filters, by name.

All have a draw for each example. One for a batch would take a third of the time, but what a draw shifts and scales in a
channel is taken away by batch normalisation in training, so that nothing keeps the posterior from being wide there;
evaluation, with statistics over many draws, does not take it away, and fails.
"""

TREATMENTS: dict[str, tuple[str, str]] = {
    **{name: (name, name) for name in ("dense", "mfg", "mcd", "nng")},
    "whvi": ("whvi", "mcd"),
    "nf-whvi": ("nf-whvi", "mcd"),
    "whvi-filters": ("whvi", "whvi"),
    "whvi-filters-own-g": ("whvi", "whvi-own-g"),
    "whvi-filters-t4": ("whvi", "whvi-t4"),
    "whvi-filters-SHGHSH": ("whvi", "whvi-SHGHSH"),
    "low-rank-mcd": ("whvi", "low-rank-mcd"),
}
"""How linear maps are treated, and how filters are, by name. The paper's WHVI leaves filters to MC dropout."""


def treatment(of: str | Treatment) -> Treatment:
    """A treatment by its name in ``TREATMENTS``, or as "LINEAR+FILTERS"; one that is made already is handed through.

    >>> treatment("whvi") == treatment("whvi+mcd")
    True
    """
    if isinstance(of, Treatment):
        return of
    if not isinstance(of, str):
        raise InputTypeError(f"treatment must be a name or a whvi_paper.networks.Treatment, got {type(of).__name__}")
    linear, _, filters = ("+".join(TREATMENTS[of]) if of in TREATMENTS else of).partition("+")
    if linear not in LINEAR or filters not in FILTERS:
        raise ArgumentError(
            f"treatment {of!r} is unknown; use one of: {', '.join(TREATMENTS)}; or LINEAR+FILTERS with linear maps "
            f"of: {', '.join(LINEAR)}; and filters of: {', '.join(FILTERS)}"
        )
    return Treatment(LINEAR[linear], FILTERS[filters])


def _from_he(layer: Dense) -> Dense:
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
