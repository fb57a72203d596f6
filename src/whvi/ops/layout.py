"""From numpy broadcasting to the loops of the kernels: R groups of B rows of K blocks of D elements, or of sums."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from torch import Tensor

from whvi.errors import ShapeError

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """How the broadcast leading axes of a call map to groups, rows, terms, columns and blocks.

    All operands differ from group to group. Bits 4i, 4i + 1, 4i + 2 and 4i + 3 of ``varies`` say whether operand i
    differs from row to row, from term to term, from column to column, and from block to block. The result is summed
    over terms and columns, and has no axes for them.
    """

    lead: Shape
    """Leading shape of the result."""
    groups: int
    rows: int
    terms: int
    columns: int
    blocks: int
    varies: int
    expand: int = 0
    """Leading axes over which all operands must be expanded first, because kernels cannot loop over them."""


def plan(leads: Sequence[Shape | None], *, stack: bool, summed: bool = False) -> Layout:
    """Lay out operands with the given leading shapes (None: absent).

    Args:
        leads: of the operands.
        stack: allow more than one group.
        summed: the last three axes are those of terms, columns and blocks. Else there is one term and one column, and
            blocks are found among the axes.

    Neighbouring axes on which the same operands vary are one axis.

    >>> layout = plan([(64, 1), (3,), None], stack=True)  # rows in the first, blocks in the second
    >>> layout.rows, layout.blocks, bin(layout.varies)
    (64, 3, '0b10000001')
    """
    if not summed and not any(leads[1:]):
        return only_rows(leads[0] or ())
    lead = broadcast([shape for shape in leads if shape is not None])
    full = [None if shape is None else (1,) * (len(lead) - len(shape)) + tuple(shape) for shape in leads]
    outer, most = (len(lead) - 3, 1) if summed else (len(lead), 2)
    runs, first_end = _runs(lead[:outer], full)
    groups, expand = 1, 0
    # A first axis on which everything varies is a stack of problems, unless it holds the only rows of operand 0.
    if stack and len(runs) > 1 and _everything(runs[0][1], full) and (len(runs) == most + 1 or runs[1][1][0]):
        groups, runs = runs[0][0], runs[1:]
    elif stack and len(runs) == most + 1:
        # Those that stay the same there, such as scales for draws that serve many rows, are repeated: they are small.
        groups, runs, expand = runs[0][0], runs[1:], first_end
    nowhere = (1, (0,) * len(leads))
    if len(runs) > most:
        everywhere = tuple(0 if shape is None else 1 for shape in full)
        groups, runs, expand = 1, [(prod(lead[:outer]), everywhere)], outer
    (rows, in_rows), (blocks, in_blocks) = [*runs, nowhere, nowhere][:2]
    terms, columns, in_terms, in_columns = 1, 1, nowhere[1], nowhere[1]
    if summed:
        terms, columns, blocks = lead[outer:]
        in_terms, in_columns, in_blocks = (_varying(full, axis) for axis in range(outer, len(lead)))
        lead = (*lead[:outer], blocks)
    varying = zip(in_rows, in_terms, in_columns, in_blocks, strict=True)
    bits = sum((r | t << 1 | c << 2 | b << 3) << 4 * i for i, (r, t, c, b) in enumerate(varying))
    return Layout(lead, groups, rows, terms, columns, blocks, bits, expand)


def _runs(lead: Sequence[int], full: Sequence[Shape | None]) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    """Neighbouring axes on which the same operands vary, each as a size and what varies; and where the first ends."""
    runs: list[tuple[int, tuple[int, ...]]] = []
    first_end = 0
    for axis, size in enumerate(lead):
        if size == 1:
            continue
        varies = _varying(full, axis)
        if runs and runs[-1][1] == varies:
            runs[-1] = (runs[-1][0] * size, varies)
        else:
            runs.append((size, varies))
        if len(runs) == 1:
            first_end = axis + 1
    return runs, first_end


def noise_layout(
    leads: Sequence[Shape | None], noise_shape: Sequence[int] | None, *, summed: bool = False
) -> tuple[Shape, Layout | None]:
    """Leading shape of the noise, and how the kernel walks a call that draws it.

    ``leads`` are the leading shapes of x, s1, mean, s2 and std. None when the noise has to be laid out first: one draw
    serves many rows, so that there are few numbers, or the axes are too mixed.
    """
    noise = broadcast([lead for lead in leads if lead is not None]) if noise_shape is None else tuple(noise_shape)
    layout = plan([*leads, noise], stack=False, summed=summed)
    walkable = not layout.expand and (layout.varies >> 20 & 1 or layout.rows == 1)
    return noise, layout if walkable else None


def spread(operand: Tensor, layout: Layout, *, summed: bool = False) -> Tensor:
    """The operand, repeated over the first axes that the layout names."""
    axes = len(layout.lead) + (3 if summed else 1)
    shape = (1,) * (axes - operand.ndim) + tuple(operand.shape)
    return operand.expand(*layout.lead[: layout.expand], *shape[layout.expand :])


def only_rows(lead: Shape) -> Layout:
    """One problem, whose rows are those of operand 0; nothing else has leading axes."""
    return Layout(tuple(lead), 1, prod(lead), 1, 1, 1, 1)


def _varying(full: Sequence[Shape | None], axis: int) -> tuple[int, ...]:
    """For each operand, whether it varies along an axis."""
    # Comparing with 1 fixes a symbolic size (torch.compile) to "one" or "more", which is all that matters.
    return tuple(1 if shape is not None and shape[axis] != 1 else 0 for shape in full)


def _everything(varies: tuple[int, ...], full: Sequence[Shape | None]) -> bool:
    return all(v or shape is None for v, shape in zip(varies, full, strict=True))


def broadcast(leads: Sequence[Shape]) -> Shape:
    """The common leading shape, or an error that shows them all (torch.broadcast_shapes takes 30 times as long)."""
    lead: list[int] = [1] * max(map(len, leads))
    for shape in leads:
        skip = len(lead) - len(shape)
        for axis, size in enumerate(shape, skip):
            if size == 1 or size == lead[axis]:
                continue
            if lead[axis] != 1:
                shown = ", ".join(str(tuple(s)) for s in leads)
                raise ShapeError(f"leading shapes {shown} do not broadcast together")
            lead[axis] = size
    return tuple(lead)
