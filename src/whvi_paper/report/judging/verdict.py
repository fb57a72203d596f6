"""What a verdict is, and the numbers that it is drawn from."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from whvi_paper.blocks import Entry


class Verdict(StrEnum):
    """Of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CONTRADICTED = "contradicted"
    UNTESTABLE = "not testable here"
    OPEN = "not computed yet"


Finding = tuple[Verdict, str]
"""A verdict, and the numbers that it rests on."""
Judge = Callable[[Sequence[Entry]], Finding]
"""Of the numbers of an exhibit that were run."""
IMAGES = 10_000
"""Test images of CIFAR-10."""


def values(entries: Sequence[Entry], **fields: object) -> dict[tuple[str, str, int], float]:
    """(method, dataset, width) -> mean, of the entries with these fields."""
    mine = [e for e in entries if all(getattr(e, name) == value for name, value in fields.items())]
    return {(entry.method, entry.dataset, entry.width): entry.mean for entry in mine}


def settled(verdict: Verdict, told: str) -> Judge:
    """What no record decides: a formula, or hardware that is not here."""
    return lambda entries: (verdict, told)
