"""From numpy broadcasting to what the kernels walk: R groups of B rows of K blocks of D elements."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from whvi.errors import ShapeError

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """How the broadcast leading axes of a call fall into groups, rows and blocks.

    All operands differ from group to group. Bit 2i of ``varies`` says that operand i differs from row to row, bit
    2i + 1 that it differs from block to block.
    """

    lead: Shape
    """Leading shape of the result."""
    groups: int
    rows: int
    blocks: int
    varies: int
    expand: int = 0
    """Leading axes that all operands must be expanded over first, because they are too mixed for what kernels walk."""


def plan(leads: Sequence[Shape | None], *, stack: bool) -> Layout:
    """Lay out operands with the given leading shapes (None: absent). ``stack`` allows more than one group.

    Neighbouring axes on which the same operands vary are one axis.

    >>> layout = plan([(64, 1), (3,), None], stack=True)  # rows in the first, blocks in the second
    >>> layout.rows, layout.blocks, bin(layout.varies)
    (64, 3, '0b1001')
    """
    if not any(leads[1:]):
        return only_rows(leads[0] or ())
    lead = broadcast([shape for shape in leads if shape is not None])
    full = [None if shape is None else (1,) * (len(lead) - len(shape)) + tuple(shape) for shape in leads]
    runs: list[tuple[int, tuple[int, ...]]] = []
    first_end = 0
    for axis, size in enumerate(lead):
        if size == 1:
            continue
        # Comparing with 1 fixes a symbolic size (torch.compile) to "one" or "more", which is all that matters.
        varies = tuple(1 if shape is not None and shape[axis] != 1 else 0 for shape in full)
        if runs and runs[-1][1] == varies:
            runs[-1] = (runs[-1][0] * size, varies)
        else:
            runs.append((size, varies))
        if len(runs) == 1:
            first_end = axis + 1
    groups, expand = 1, 0
    # A first axis on which everything varies is a stack of problems, unless it holds the only rows of operand 0.
    if stack and len(runs) > 1 and _everything(runs[0][1], full) and (len(runs) == 3 or runs[1][1][0]):
        groups, runs = runs[0][0], runs[1:]
    elif stack and len(runs) == 3:
        # Those that stay the same there, such as scales for draws that serve many rows, are repeated: they are small.
        groups, runs, expand = runs[0][0], runs[1:], first_end
    if len(runs) > 2:
        everywhere = sum(1 << 2 * i for i, shape in enumerate(full) if shape is not None)
        return Layout(lead, 1, prod(lead), 1, everywhere, expand=len(lead))
    nowhere = (1, (0,) * len(leads))
    (rows, in_rows), (blocks, in_blocks) = [*runs, nowhere, nowhere][:2]
    bits = sum(r << 2 * i | b << 2 * i + 1 for i, (r, b) in enumerate(zip(in_rows, in_blocks, strict=True)))
    return Layout(lead, groups, rows, blocks, bits, expand)


def only_rows(lead: Shape) -> Layout:
    """One problem, whose rows are those of operand 0; nothing else has leading axes."""
    return Layout(tuple(lead), 1, prod(lead), 1, 1)


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
