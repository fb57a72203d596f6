"""How a weight of any shape is laid onto square blocks whose side is a power of two."""

from dataclasses import dataclass
from typing import Literal, get_args

from whvi.arguments import whole_number
from whvi.errors import ArgumentError

LayoutName = Literal["stack", "embed", "reshape"]


@dataclass(frozen=True)
class Plan:
    """K square blocks of side D that hold a weight of shape (out_features, in_features).

    - ``stack``: W is the first rows of K blocks on top of each other, D >= in_features (algorithm 1 of the paper).
    - ``embed``: W is the upper left part of one block, D >= both.
    - ``reshape``: each output has a block of its own, whose rows are its weights, in turn: D^2 >= in_features.
    """

    layout: LayoutName
    in_features: int
    out_features: int
    size: int
    """D, the side of a block."""
    blocks: int
    """K, the number of blocks."""
    terms: int = 1
    """T, the number of such weights that W is the sum of, each with vectors of its own."""
    columns: int = 1
    """C, the number of blocks beside each other; blocks are numbered down the first column, then the next."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Shape of one vector for each block of each term: ``([T,] [K,] D)``, without the axis of a single one."""
        blocks = () if self.blocks == 1 else (self.blocks,)
        return (*self.term_shape, *blocks, self.size)

    @property
    def shared_shape(self) -> tuple[int, ...]:
        """Shape of one vector for all blocks of a term: ``([T,] D)``."""
        return (*self.term_shape, self.size)

    @property
    def rows(self) -> int:
        """How many blocks are on top of each other."""
        return self.blocks // self.columns

    @property
    def summed(self) -> bool:
        """True when an output is a sum over terms, or over blocks beside each other."""
        return self.terms * self.columns > 1

    @property
    def term_shape(self) -> tuple[int, ...]:
        """(T), or () for a single term."""
        return () if self.terms == 1 else (self.terms,)


def make_plan(layout: str, in_features: int, out_features: int, terms: int = 1) -> Plan:
    """The plan for a weight of shape (out_features, in_features), a sum of ``terms``.

    >>> make_plan("stack", 3, 10)
    Plan(layout='stack', in_features=3, out_features=10, size=4, blocks=3, terms=1, columns=1)
    >>> make_plan("reshape", 1000, 1).size, make_plan("stack", 3, 10, terms=2).block_shape
    (32, (2, 3, 4))
    """
    terms = whole_number("terms", terms)
    in_features, out_features = whole_number("in_features", in_features), whole_number("out_features", out_features)
    if layout == "stack":
        size = _power_of_two(in_features)
        return Plan("stack", in_features, out_features, size, -(-out_features // size), terms)
    if layout == "embed":
        return Plan("embed", in_features, out_features, _power_of_two(max(in_features, out_features)), 1, terms)
    if layout == "reshape":
        side = 1 << ((in_features - 1).bit_length() + 1) // 2
        return Plan("reshape", in_features, out_features, side, out_features, terms)
    raise ArgumentError(f"layout must be one of {', '.join(map(repr, get_args(LayoutName)))}, got {layout!r}")


def _power_of_two(size: int) -> int:
    """The smallest power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()
