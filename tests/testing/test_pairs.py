"""Covering sets of pairs: complete, small, the same each time."""

from itertools import combinations, product

import pytest

from whvi.errors import ArgumentError
from whvi.testing import cover_pairs

Pair = tuple[tuple[int, object], ...]
FACTORS: list[tuple[range, ...]] = [
    (range(4), range(4), range(2), range(6)),
    (range(5), range(4), range(4), range(2)),
    (range(9), range(9), range(2)),
    (range(3),) * 6,
    (range(7), range(3)),
]


def pairs_of(cases: list[tuple[object, ...]]) -> set[Pair]:
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_every_pair_is_covered_by_few_cases(factors: tuple[range, ...]) -> None:
    """At least the product of the two longest factors is needed; three quarters more than that are too many."""
    cases, whole = cover_pairs(*factors), list(product(*factors))
    assert pairs_of(cases) == pairs_of(whole)
    assert len(set(cases)) == len(cases)
    longest, next_longest = sorted(map(len, factors))[-2:][::-1]
    assert longest * next_longest <= len(cases) <= 1.75 * longest * next_longest
    assert cases == cover_pairs(*factors)


def test_cases_that_do_not_exist_are_left_out_and_their_pairs_with_them() -> None:
    factors = (range(4), range(3), range(5))
    allowed = [case for case in product(*factors) if sum(case) != 4 and case[:2] != (3, 2)]
    cases = cover_pairs(*factors, keep=lambda *case: case in allowed)
    assert set(cases) <= set(allowed)
    assert pairs_of(cases) == pairs_of(list(allowed))


def test_wanted_cases_come_first_and_count() -> None:
    factors = (range(4), range(3), range(2))
    wanted = [(3, 2, 1), (0, 0, 1)]
    cases = cover_pairs(*factors, first=wanted)
    assert cases[:2] == wanted
    assert pairs_of(cases) == pairs_of(list(product(*factors)))
    assert len(set(cases)) == len(cases)


def test_a_wanted_case_that_is_not_allowed_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"\(1, 'b'\)"):
        cover_pairs((1, 2), "ab", keep=lambda number, letter: letter == "a", first=[(1, "b")])


def test_options_may_be_unhashable() -> None:
    assert cover_pairs([{}, {"a": 1}], [[0]]) == [({}, [0]), ({"a": 1}, [0])]
