"""What tells two modules apart: all that they do differently, and nothing that a process adds."""

from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi.nn.anatomy import anatomy, describe, differences
from whvi.predictive import Ensemble


class Mode(Enum):
    SIN = 1
    COS = 2


class Setting(nn.Module):
    """A linear map, and a setting that it keeps to itself."""

    def __init__(self, setting: Any) -> None:
        super().__init__()
        self.map = nn.Linear(2, 1)
        self._setting = setting
        self._memory: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.map(x)
        self._memory = y
        return y


@pytest.mark.parametrize(
    ("one", "other"),
    [(1.0, 100.0), (Mode.SIN, Mode.COS), ("a", "b"), (True, False)],
)
def test_private_settings_tell_modules_apart(one: Any, other: Any) -> None:
    (told,) = differences(anatomy(Setting(one)), anatomy(Setting(other)))
    assert told.startswith("model._setting was")
    with pytest.raises(ArgumentError, match="_setting"):
        Ensemble([Setting(one), Setting(other)])


def test_what_a_call_leaves_behind_does_not() -> None:
    used = Setting(1.0)
    used(torch.zeros(3, 2))
    assert differences(anatomy(Setting(1.0)), anatomy(used)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Mode.SIN, Mode.COS),
        (Path("a"), Path("b")),
        (b"a", b"b"),
        (range(3), range(4)),
        (np.int64(3), np.int64(4)),
        (np.arange(3), np.arange(3)[::-1]),
        ({"a", "b"}, {"a", "c"}),
    ],
)
def test_values_that_differ_have_other_words(one: Any, other: Any) -> None:
    assert describe(one) == describe(one) != describe(other)


class Word(str):
    """A string with a hash that is given, as the one of a string depends on a seed that each process draws."""

    place: int

    def __hash__(self) -> int:
        return self.place


def words(*places: int) -> set[Word]:
    found = [Word(word) for word in ("alpha", "beta", "gamma", "delta")]
    for word, place in zip(found, places, strict=True):
        word.place = place
    return set(found)


def test_sets_have_one_order_in_every_process() -> None:
    one, other = words(0, 1, 2, 3), words(3, 2, 1, 0)
    assert list(one) != list(other)
    assert describe(one) == describe(other) == ["alpha", "beta", "delta", "gamma"]


def test_objects_without_settings_have_no_address_in_their_words() -> None:
    class Plain:
        pass

    assert describe(Plain()) == describe(Plain())


def scaled(factor: float) -> Any:
    def scale(x: float, power: int = 2) -> float:
        return factor * x**power

    return scale


def test_functions_are_told_apart_by_name_and_settings_and_not_by_byte_code() -> None:
    """Byte code is another one in each version of Python."""
    assert describe(scaled) == f"{__name__}.scaled"
    assert describe(scaled(2.0)) == [f"{__name__}.scaled.<locals>.scale", 2.0, 2]
    assert describe(scaled(2.0)) == describe(scaled(2.0)) != describe(scaled(3.0))
