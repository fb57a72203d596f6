"""Hidden layers that have something in common: one g, or one structured matrix that all of them are cut from."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from whvi.errors import UnsupportedError
from whvi.nn import share_g
from whvi.nn.draws import Draw
from whvi.nn.law import WeightDistribution
from whvi.nn.parts import check_features
from whvi.nn.structured import G, StructuredLayer
from whvi.nn.vectors import bias_at, vector_at
from whvi.ops.bias import add_bias
from whvi.structure import make_plan
from whvi_paper.networks.layers import WHVILinear

Embedded = partial(WHVILinear, layout="embed")
"""A part of one block that is as wide as the layer: g has as many numbers in every hidden layer."""


class PartLinear(StructuredLayer):
    """y = W x + b, where W is a part of a square structured matrix M, of which other layers may have parts, too.

    W = M[rows, columns] with M = S1 H diag(g) H S2 of side ``size``; at the start its entries have the variance
    2 / inputs.

    Shapes: (..., len(columns)) -> (..., len(rows)).

    Law: under a fixed draw, forward(x) == x @ weight_at(draw).T + bias_value(draw).

    >>> PartLinear(8, range(2, 7), range(4))(torch.randn(3, 4)).shape
    torch.Size([3, 5])
    """

    def __init__(self, size: int, rows: range, columns: range) -> None:
        super().__init__(
            make_plan("embed", size, size),
            1,
            len(rows),
            True,
            structure="SHGHS",
            posterior="diagonal",
            scales="optimised",
            prior_variance=1.0,
            share_g=True,
            draws="example",
            weight_variance=2.0 / len(columns),
            device=None,
            dtype=None,
        )
        self.rows, self.columns = rows, columns

    def part(self, whole: Tensor) -> Tensor:
        """Of a matrix like M: (..., size, size) -> (..., len(rows), len(columns))."""
        return whole[..., self.rows.start : self.rows.stop, self.columns.start : self.columns.stop]

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """Zeros stand for the inputs of other layers, and their outputs are dropped."""
        axes = 0 if draw is None else x.ndim - 1 - len(draw.shape or ())
        x = pad(x, (self.columns.start, self.plan.size - self.columns.stop))
        y = self.matrix(draw, axes).apply(vector_at(self.g, draw, G, axes), x)
        return add_bias(y[..., self.rows.start : self.rows.stop], bias_at(self.bias, draw, axes))

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """W at a draw, or its mean: (*draw.shape, len(rows), len(columns))."""
        return self.part(self.dense(draw))

    def weight_distribution(self) -> WeightDistribution:
        """That of M is not that of W."""
        raise UnsupportedError("the distribution of a part of a matrix is not available; sample weight_at(draw)")

    def check(self, x: Tensor) -> None:
        """The last axis must have an element for each column."""
        check_features(x, len(self.columns))
        super().check(x)


def shared_g(sizes: Sequence[int]) -> list[nn.Module]:
    """A layer between each two sizes, with scales of its own and the g of all; hidden sizes are equal, inputs fewer."""
    return list(share_g(nn.Sequential(*(Embedded(i, o) for i, o in pairwise(sizes)))))


def one_matrix(sizes: Sequence[int]) -> list[nn.Module]:
    """A layer between each two sizes, all of them parts of one matrix, each with rows and columns of its own.

    M would map the inputs of all layers, one after the other, to the outputs of all layers.

    >>> layers = one_matrix([3, 4, 4])
    >>> [(layer.rows, layer.columns) for layer in layers], layers[0].g is layers[1].g, layers[0].plan.size
    ([(range(0, 4), range(0, 3)), (range(4, 8), range(3, 7))], True, 8)
    """
    columns, rows = (list(map(range, ends, ends[1:])) for ends in map(_ends, (sizes[:-1], sizes[1:])))
    size = 1 << (max(rows[-1].stop, columns[-1].stop) - 1).bit_length()
    first, *others = layers = [PartLinear(size, *place) for place in zip(rows, columns, strict=True)]
    for layer in others:
        with torch.no_grad():
            for mine, its, place in zip(first.scales, layer.scales, (layer.rows, layer.columns), strict=True):
                mine.get_parameter("mean")[list(place)] = its.get_parameter("mean")[list(place)]
        layer.g, layer.scales, layer.prior = first.g, first.scales, first.prior
    return list(layers)


def _ends(lengths: Sequence[int]) -> list[int]:
    return [0, *accumulate(lengths)]


def covariance(layers: Sequence[StructuredLayer], entries: Sequence[Tensor]) -> Tensor:
    """Of some entries of the weights of layers under q(g): (n, n) for n entries in all.

    Args:
        layers: with optimised scales and a diagonal q(g).
        entries: for each layer, which of vec(W), row after row.

    Law: cov(w_i, w_j) = sum_k A_ik A_jk var(g_k) with w = A g; layers with a g of their own are independent.
    """
    roots = [_root(layer)[:, chosen] for layer, chosen in zip(layers, entries, strict=True)]
    blocks = [
        [one.T @ other if layer.g is with_it.g else one.new_zeros(one.shape[1], other.shape[1])
         for with_it, other in zip(layers, roots, strict=True)]
        for layer, one in zip(layers, roots, strict=True)
    ]  # fmt: skip
    return torch.cat([torch.cat(row, dim=1) for row in blocks])


@torch.no_grad()
def _root(layer: StructuredLayer) -> Tensor:
    """What each number of the noise of g adds to vec(W): (D, entries)."""
    whole = layer.matrix(None).dense(torch.diag(layer.g.get_parameter("log_std").exp()))
    return (layer.part(whole) if isinstance(layer, PartLinear) else whole).flatten(1)
