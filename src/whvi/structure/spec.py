"""The short string that names a structure, such as "SHGHS", and what it says."""

import re
from dataclasses import dataclass
from functools import cache

from whvi.errors import ArgumentError, InputTypeError

Step = int | None
"""One factor of a product: the number of a scale S, or None for the transform H."""


@dataclass(frozen=True)
class Structure:
    """W = A diag(g) B, read off a word: the factors left of G make A, those right of it make B.

    S is a diagonal scale, numbered from the left; H is the orthonormal Walsh-Hadamard matrix. A core [S] H G H [S] runs
    as one operator, what stands around it step by step.
    """

    word: str
    scales: int
    """Number of letters S."""
    left: tuple[Step, ...]
    """The factors of A, from G outwards: the order in which they meet a vector."""
    right: tuple[Step, ...]
    """The factors of B, from the outer end to G: the order in which they meet a vector."""

    @property
    def fused(self) -> bool:
        """True when the core is H G H, with or without its scales, and not G alone."""
        return self.left[:1] == (None,) and self.right[-1:] == (None,)


@cache
def parse(word: str) -> Structure:
    """The structure that a word such as "SHGHS" describes.

    A word has one G and, around it, letters S and H that never stand twice in a row.

    >>> parse("SHGHSH")
    Structure(word='SHGHSH', scales=2, left=(None, 0), right=(None, 1, None))
    >>> parse("SHG!")
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: structure 'SHG!' is not a word of one G and letters S and H, no letter twice in a row; \
try 'SHGHS', 'SHGH', 'SHGHSH' or 'GH'
    """
    if not isinstance(word, str):
        raise InputTypeError(f"structure must be a string such as 'SHGHS', got {type(word).__name__}")
    if not re.fullmatch(r"[SH]*G[SH]*", word) or "SS" in word or "HH" in word:
        raise ArgumentError(
            f"structure {word!r} is not a word of one G and letters S and H, no letter twice in a row; "
            "try 'SHGHS', 'SHGH', 'SHGHSH' or 'GH'"
        )
    steps: list[Step] = [word[:i].count("S") if letter == "S" else None for i, letter in enumerate(word)]
    middle = word.index("G")
    return Structure(word, word.count("S"), tuple(steps[:middle][::-1]), tuple(steps[:middle:-1]))
