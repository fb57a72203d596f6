"""How a weight of any shape is built from square blocks whose side is the order of a Hadamard matrix."""

from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.ops.orders import is_order, next_order

LayoutName = Literal["stack", "embed", "reshape", "grid"]
Padding = Literal["order", "power_of_two"]


@dataclass(frozen=True)
class Plan:
    """K square blocks of side D that hold a weight of shape (out_features, in_features).

    - ``stack``: W is the first rows of K blocks stacked vertically, D >= in_features (algorithm 1 of the paper).
    - ``embed``: W is the upper left part of one block, D >= both.
    - ``grid``: W is the upper left part of blocks in rows and columns, D any order.
    - ``reshape``: each output has its own block, whose rows are concatenated to its weights: D^2 >= in_features.
    """

    layout: LayoutName
    in_features: int
    out_features: int
    size: int
    """D, the side of a block."""
    blocks: int
    """K, the total number of blocks."""
    terms: int = 1
    """T, the number of terms whose sum is W, each with its own vectors."""
    columns: int = 1
    """C, the number of columns of blocks; blocks are numbered down the first column, then the next."""

    shared_shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Shape of one vector for all blocks of a term: ``([T,] D)``."""
    block_shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Shape of one vector for each block of each term: ``([T,] [K,] D)``, without axes of size one."""
    rows: int = field(init=False, repr=False, compare=False)
    """The number of rows of blocks."""
    summed: bool = field(init=False, repr=False, compare=False)
    """True if an output is a sum over terms or over columns of blocks."""

    def __post_init__(self) -> None:
        terms, blocks = (() if number == 1 else (number,) for number in (self.terms, self.blocks))
        found = {
            "shared_shape": (*terms, self.size),
            "block_shape": (*terms, *blocks, self.size),
            "rows": self.blocks // self.columns,
            "summed": self.terms * self.columns > 1,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)  # the class is frozen


@checked
def make_plan(
    layout: str,
    in_features: int,
    out_features: int,
    terms: int = 1,
    *,
    block: int | None = None,
    pad_to: str = "power_of_two",
) -> Plan:
    """The plan for a weight of shape (out_features, in_features), a sum of ``terms``.

    Args:
        layout: see ``Plan``.
        in_features, out_features: the shape.
        terms: T.
        block: D of the layout "grid", an order.
        pad_to: allowed D of the layouts "stack" and "embed": "power_of_two", or any "order" if that needs fewer
            numbers, blocks times D. "reshape" needs powers of two.

    >>> make_plan("stack", 3, 10)
    Plan(layout='stack', in_features=3, out_features=10, size=4, blocks=3, terms=1, columns=1)
    >>> make_plan("reshape", 1000, 1).size, make_plan("stack", 3, 10, terms=2).block_shape
    (32, (2, 3, 4))
    >>> make_plan("grid", 5, 10, block=4)
    Plan(layout='grid', in_features=5, out_features=10, size=4, blocks=6, terms=1, columns=2)
    >>> [make_plan("stack", 700, out, pad_to="order").size for out in (768, 1024)]
    [768, 1024]
    """
    terms = whole_number("terms", terms)
    in_features, out_features = whole_number("in_features", in_features), whole_number("out_features", out_features)
    if pad_to not in get_args(Padding):
        raise ArgumentError(f"pad_to must be one of {', '.join(map(repr, get_args(Padding)))}, got {pad_to!r}")
    if block is not None and layout != "grid":
        raise ArgumentError(f"block={block!r} is the side of the blocks of layout='grid', but layout is {layout!r}")
    if layout == "grid":
        size = _side(block)
        rows, columns = -(-out_features // size), -(-in_features // size)
        return Plan("grid", in_features, out_features, size, rows * columns, terms, columns)
    if layout in ("stack", "embed"):
        least = in_features if layout == "stack" else max(in_features, out_features)
        plans = [
            Plan(cast(LayoutName, layout), in_features, out_features, size, -(-out_features // size), terms)
            for size in ((_power_of_two(least), next_order(least)) if pad_to == "order" else (_power_of_two(least),))
        ]
        return min(plans, key=lambda plan: plan.blocks * plan.size)  # of equals the first, a power of two
    if layout == "reshape":
        side = 1 << ((in_features - 1).bit_length() + 1) // 2
        return Plan("reshape", in_features, out_features, side, out_features, terms)
    raise ArgumentError(f"layout must be one of {', '.join(map(repr, get_args(LayoutName)))}, got {layout!r}")


def _side(block: int | None) -> int:
    """The side of the blocks of a grid."""
    if block is None:
        raise ArgumentError("layout='grid' needs block=, the side of its blocks, for example block=32")
    block = whole_number("block", block)
    if not is_order(block):
        raise ArgumentError(
            f"block={block} is not an order of a Hadamard matrix, m 2^k with m = 1, 12, 20, 28, 36; the next one is "
            f"{next_order(block)}"
        )
    return block


def _power_of_two(size: int) -> int:
    """The smallest power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()
