"""Where a structured layer starts: the vectors whose weight is nearest to a dense one."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.convert.factorise import factorise
from whvi.errors import ArgumentError
from whvi.ops import fwht
from whvi.ops.orders import split
from whvi.ops.precision import wide
from whvi.structure import Plan, StructuredMatrix, random_permutation
from whvi.structure.spec import Structure

_STEPS, _RATE = 300, 0.05  # of Adam, for structures without a closed form


class Start(NamedTuple):
    """Vectors of a structured layer, and the distance of their weight from the target."""

    g: Tensor
    """As the layer has it: ([T,] D), or the shape of the blocks where each has its own."""
    scales: list[Tensor]
    """For each S of the word, of the shape of the blocks."""
    permutations: list[Tensor]
    """For each P of the word, as the scales."""
    error: float
    """|W - W_hat| / |W|, Frobenius norms."""


def nearest(weight: Tensor, structure: Structure, plan: Plan, groups: int, share_g: bool, g_size: float) -> Start:
    """The structured weight nearest to a dense one.

    Terms are fitted one after the other, each to what is left of the weight: words [S] H G H [S] by alternating least
    squares (``factorise``) where the side of a block is a power of two, others by gradient steps.

    Args:
        weight: (groups * out_features, in_features) of the plan, row by row as a layer has it.
        structure, plan, groups, share_g: of the layer.
        g_size: root mean square of g; scales make up for it.

    Law: error == |W - W_hat| / |W|, with W_hat the weight of a layer with these g and scales.
    """
    if weight.is_meta:
        raise ArgumentError("the weight is on the meta device and has no values to fit; omit init")
    weight = wide(weight.detach()).reshape(groups, plan.out_features, plan.in_features)
    if not weight.isfinite().all():
        raise ArgumentError("the weight has NaN or inf; a layer cannot be fitted to it; use init='prior'")
    single = replace(plan, terms=1)
    found = [_nearest_term(weight, structure, single, share_g, g_size)]
    for _ in range(1, plan.terms):  # each term is fitted to what the others leave
        rest = weight - sum(term.weight for term in found)
        found.append(_nearest_term(rest, structure, single, share_g, g_size))
    if plan.terms == 1:
        g, scales, permutations = found[0].g, found[0].scales, found[0].permutations
    else:
        axis = 1 if groups > 1 else 0  # the groups come first
        g = torch.stack([term.g for term in found], 0 if share_g else axis)
        scales = [torch.stack(parts, axis) for parts in zip(*(term.scales for term in found), strict=True)]
        permutations = [torch.stack(parts, axis) for parts in zip(*(term.permutations for term in found), strict=True)]
    size, left = float(weight.norm()), weight - sum(term.weight for term in found)
    return Start(g, scales, permutations, float(left.norm()) / size if size > 0.0 else 0.0)


class _Term(NamedTuple):
    g: Tensor
    scales: list[Tensor]
    permutations: list[Tensor]
    weight: Tensor
    """(groups, out_features, in_features)."""


def _nearest_term(weight: Tensor, structure: Structure, plan: Plan, share_g: bool, g_size: float) -> _Term:
    groups = weight.shape[0]
    each = (groups, *plan.block_shape) if groups > 1 else plan.block_shape
    permutations = [random_permutation(each, weight.device) for _ in range(structure.permutations)]
    if structure.word.strip("S") == "HGH" and split(plan.size)[0] == 1:
        g, scales = _by_least_squares(weight, structure, plan, share_g)
    else:
        g, scales = _by_gradient(weight, structure, plan, share_g, permutations)
    g, scales = _balanced(g, scales, g_size)
    g, scales = g.reshape((plan.size,) if share_g else each), [scale.reshape(each) for scale in scales]
    matrix = StructuredMatrix(structure, plan, scales, permutations, shared=share_g)
    return _Term(g, scales, permutations, matrix.dense(g).reshape(weight.shape))


def _by_least_squares(weight: Tensor, structure: Structure, plan: Plan, share_g: bool) -> tuple[Tensor, list[Tensor]]:
    """g (N or 1, D) and scales (N, D), for N blocks in all groups."""
    squares, mask = _squares(weight, plan), _squares(torch.ones_like(weight), plan)
    sides = {"left": structure.word.startswith("S"), "right": structure.word.endswith("S")}
    a, b, c = (x.flatten(1) for x in factorise(squares, mask, shared=share_g, **sides).factors)
    unused = _size(a).expand(-1, plan.size - a.shape[1])
    return fwht(c), [
        scale for scale, there in zip((torch.cat((a, unused), 1), b), sides.values(), strict=True) if there
    ]


def _squares(weight: Tensor, plan: Plan) -> Tensor:
    """The weight on the squares of ``factorise``, padded with zeros: (groups, out, in) -> (N, Q, R, R)."""
    side = plan.size
    if plan.layout == "reshape":
        return pad(weight, (0, side * side - plan.in_features)).reshape(-1, 1, side, side)
    if plan.columns > 1:
        missing = plan.columns * side - plan.in_features, plan.rows * side - plan.out_features
        blocks = pad(weight, (0, missing[0], 0, missing[1])).reshape(-1, plan.rows, side, plan.columns, side)
        return blocks.permute(0, 3, 1, 2, 4).reshape(-1, 1, side, side)
    rows = side if plan.blocks > 1 else 1 << (plan.out_features - 1).bit_length()
    padded = pad(weight, (0, side - plan.in_features, 0, plan.blocks * rows - plan.out_features))
    return padded.reshape(-1, rows, side // rows, rows).transpose(1, 2)


def _by_gradient(
    weight: Tensor, structure: Structure, plan: Plan, share_g: bool, permutations: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """As ``_by_least_squares``, from random vectors of about the right size."""
    groups = weight.shape[0]
    count = groups * plan.blocks
    each = (groups, *plan.block_shape) if groups > 1 else plan.block_shape
    size = weight.square().mean().mul(plan.size).sqrt().clamp_min(torch.finfo(weight.dtype).tiny)
    parts = [torch.randn((plan.size,) if share_g else each, dtype=weight.dtype, device=weight.device)]
    parts += [torch.randn(each, dtype=weight.dtype, device=weight.device) for _ in range(structure.scales)]
    target = weight / size
    with torch.enable_grad():
        leaves = [part.requires_grad_() for part in parts]
        optimizer = torch.optim.Adam(leaves, lr=_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
        for _ in range(_STEPS):
            matrix = StructuredMatrix(structure, plan, leaves[1:], permutations, shared=share_g)
            loss = (matrix.dense(leaves[0]).reshape(weight.shape) - target).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    g, *scales = (leaf.detach() for leaf in leaves)
    return (g * size).reshape(1 if share_g else count, -1), [scale.reshape(count, -1) for scale in scales]


def _balanced(g: Tensor, scales: list[Tensor], g_size: float) -> tuple[Tensor, list[Tensor]]:
    """The same weight with g of the size of its prior, and the scales of a block of one size."""
    if not scales:
        return g, scales
    own = _size(g)
    mean = torch.stack([_size(scale).log() for scale in scales]).mean(0).exp()
    wanted = mean * (own / g_size) ** (1.0 / len(scales))
    return g * (g_size / own), [scale * (wanted / _size(scale)) for scale in scales]


def _size(vectors: Tensor) -> Tensor:
    """Root mean square of each, or one for zero: (N, D) -> (N, 1)."""
    size = vectors.square().mean(-1, keepdim=True).sqrt()
    return torch.where(size > 0, size, 1.0)
