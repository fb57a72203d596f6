"""The short string that names a structure, such as "SHGHS", and what it says."""

import re
from dataclasses import dataclass, field
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

    fused: bool = field(init=False, repr=False)
    """True when the core is [S] H G H [S], false when it is G alone."""
    outer: Step = field(init=False, repr=False, default=None)
    """Scale on the left of a fused core, if there is one."""
    inner: Step = field(init=False, repr=False, default=None)
    """Scale on the right of a fused core, if there is one."""
    before: tuple[Step, ...] = field(init=False, repr=False)
    """The factors of B outside the core, as in ``right``."""
    after: tuple[Step, ...] = field(init=False, repr=False)
    """The factors of A outside the core, as in ``left``."""

    def __post_init__(self) -> None:
        after, before = self.left, self.right
        found: dict[str, object] = {"fused": after[:1] == (None,) and before[-1:] == (None,)}
        if found["fused"]:
            after, before = after[1:], before[:-1]
            if after and after[0] is not None:
                found["outer"], after = after[0], after[1:]
            if before and before[-1] is not None:
                found["inner"], before = before[-1], before[:-1]
        for name, value in {**found, "before": before, "after": after}.items():
            object.__setattr__(self, name, value)  # the class is frozen


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
    return _parsed(word)


@cache
def _parsed(word: str) -> Structure:
    if not re.fullmatch(r"[SH]*G[SH]*", word) or "SS" in word or "HH" in word:
        raise ArgumentError(
            f"structure {word!r} is not a word of one G and letters S and H, no letter twice in a row; "
            "try 'SHGHS', 'SHGH', 'SHGHSH' or 'GH'"
        )
    steps: list[Step] = [word[:i].count("S") if letter == "S" else None for i, letter in enumerate(word)]
    middle = word.index("G")
    return Structure(word, word.count("S"), tuple(steps[:middle][::-1]), tuple(steps[:middle:-1]))
