"""Structures by name, such as "SHGHS"."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from whvi.errors import ArgumentError, InputTypeError


class Permutation(NamedTuple):
    """A factor P: element i of P x is element p_i of x."""

    number: int
    """The index of P in the word, from the left."""


Step = int | Permutation | None
"""One factor of a product: the number of a scale S, a permutation P, or None for the transform H."""


@dataclass(frozen=True)
class Structure:
    """W = A diag(g) B, given by a word: the factors left of G are A, those right of it are B.

    S is a diagonal scale and P a fixed permutation, each numbered from the left; H is the orthonormal Walsh-Hadamard
    matrix. A core [S] H G H [S] runs as one operator, the factors around it step by step.
    """

    word: str
    scales: int
    """Number of letters S."""
    left: tuple[Step, ...]
    """The factors of A, from G outwards, in the order of application."""
    right: tuple[Step, ...]
    """The factors of B, from the outer end to G, in the order of application."""

    fused: bool = field(init=False, repr=False)
    """True if the core is [S] H G H [S], False if it is G alone."""
    outer: int | None = field(init=False, repr=False, default=None)
    """Scale on the left of a fused core, if there is one."""
    inner: int | None = field(init=False, repr=False, default=None)
    """Scale on the right of a fused core, if there is one."""
    permutations: int = field(init=False, repr=False, compare=False)
    """Number of letters P."""
    core: bool = field(init=False, repr=False, compare=False)
    """True if W is only a fused core."""
    before: tuple[Step, ...] = field(init=False, repr=False)
    """The factors of B outside the core, as in ``right``."""
    after: tuple[Step, ...] = field(init=False, repr=False)
    """The factors of A outside the core, as in ``left``."""

    def __post_init__(self) -> None:
        after, before = self.left, self.right
        found: dict[str, object] = {"fused": after[:1] == (None,) and before[-1:] == (None,)}
        if found["fused"]:
            after, before = after[1:], before[:-1]
            if after and isinstance(after[0], int):
                found["outer"], after = after[0], after[1:]
            if before and isinstance(before[-1], int):
                found["inner"], before = before[-1], before[:-1]
        found["permutations"] = self.word.count("P")
        found["core"] = found["fused"] and not after and not before
        for name, value in {**found, "before": before, "after": after}.items():
            object.__setattr__(self, name, value)  # the class is frozen


def parse(word: str) -> Structure:
    """The structure that a word such as "SHGHS" describes.

    A word has one G and, around it, letters S, H and P, where no letter follows itself.

    >>> parse("SHGHSH")
    Structure(word='SHGHSH', scales=2, left=(None, 0), right=(None, 1, None))
    >>> parse("SHG!")
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: structure 'SHG!' is not a word of one G and letters S, H and P, no letter twice in a \
row; try 'SHGHS', 'SHGH', 'SHGHSH', 'GH' or 'SHGPHS'
    """
    if not isinstance(word, str):
        raise InputTypeError(f"structure must be a string such as 'SHGHS', got {type(word).__name__}")
    if word not in _PARSED:
        _PARSED.update({each: _parsed(each) for each in (word, word[::-1])})  # the transpose has the word backwards
    return _PARSED[word]


_PARSED: dict[str, Structure] = {}  # and not functools.cache, which torch.compile traces through with a warning


def _parsed(word: str) -> Structure:
    if not re.fullmatch(r"[SHP]*G[SHP]*", word) or re.search(r"(.)\1", word):
        raise ArgumentError(
            f"structure {word!r} is not a word of one G and letters S, H and P, no letter twice in a row; "
            "try 'SHGHS', 'SHGH', 'SHGHSH', 'GH' or 'SHGPHS'"
        )
    steps: list[Step] = []
    for i, letter in enumerate(word):
        number = word[:i].count(letter)
        steps.append(Permutation(number) if letter == "P" else number if letter == "S" else None)
    middle = word.index("G")
    return Structure(word, word.count("S"), tuple(steps[:middle][::-1]), tuple(steps[:middle:-1]))
