"""A few cases of a large product that still try every two options together."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

from whvi.errors import ArgumentError

Case = tuple[Any, ...]
Places = tuple[int, ...]


def cover_pairs(
    *factors: Sequence[Any], keep: Callable[..., bool] = lambda *case: True, first: Sequence[Case] = ()
) -> list[Case]:
    """Cases with one option of each factor; whatever two options some allowed case has together, one of these has.

    A mistake that shows under two options at once is found as by the whole product, at a fraction of its size: for
    factors of n_1 >= n_2 >= ... options, a little more than n_1 n_2 cases. Greedy and deterministic: the next case is
    the first of those that bring the most new pairs.

    Law: the pairs of the result are the pairs of the allowed cases.

    Args:
        factors: the options of each factor; they may be unhashable.
        keep: ``keep(*case)`` is False for a case that does not exist.
        first: cases that the result must contain; it starts with them.

    >>> cover_pairs("ab", (1, 2), "xy")
    [('a', 1, 'x'), ('a', 2, 'y'), ('b', 1, 'y'), ('b', 2, 'x')]
    >>> len(cover_pairs(range(5), range(4), range(4), range(2)))  # of 160
    20
    """
    options = [list(factor) for factor in factors]
    allowed = [
        places for places in product(*(range(len(o)) for o in options)) if keep(*_case(options, places))
    ]  # options by their places, which can be put into a set
    chosen = [tuple(o.index(value) for o, value in zip(options, case, strict=True)) for case in first]
    if missing := [_case(options, places) for places in chosen if places not in allowed]:
        raise ArgumentError(f"first has cases that keep does not allow: {missing}; leave them out or allow them")
    left = set().union(*map(_pairs, allowed)) - set().union(*map(_pairs, chosen))
    while left:
        chosen.append(max(allowed, key=lambda places: len(left & _pairs(places))))
        left -= _pairs(chosen[-1])
    return [_case(options, places) for places in chosen]


def _case(options: Sequence[Sequence[Any]], places: Places) -> Case:
    return tuple(option[place] for option, place in zip(options, places, strict=True))


def _pairs(places: Places) -> set[tuple[tuple[int, int], ...]]:
    """Every two (factor, place of its option)."""
    return set(combinations(enumerate(places), 2))
