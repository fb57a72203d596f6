"""What a target asks for, and the rows that judge."""

import numpy as np
import pandas as pd
import pytest

from whvi.errors import ArgumentError
from whvi.tables.task import Target, Task, held_out, read_target

REGRESSION, CLASSIFICATION = Task


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["1.5", "2.5"] * 10, REGRESSION),
        (np.arange(40), REGRESSION),
        ([0, 1] * 6, CLASSIFICATION),
        (["0", "1", "2"] * 20, CLASSIFICATION),
        ([0, 1, 2, 3] * 5, REGRESSION),
        ([True, False] * 6, CLASSIFICATION),
        (["yes", "no"] * 6, CLASSIFICATION),
        (pd.Series(["a", "b"] * 6, dtype="category"), CLASSIFICATION),
    ],
)
def test_guess(values: object, task: Task) -> None:
    found = read_target(pd.Series(values, name="y"))
    assert found.task is task
    assert found.values.dtype.kind == ("f" if task is REGRESSION else "U")


def test_asked_task_wins() -> None:
    values = pd.Series(["0", "1"] * 6, name="y")
    found = read_target(values, REGRESSION)
    assert (found.task, found.reason, found.values.tolist()) == (REGRESSION, "as asked", [0.0, 1.0] * 6)


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([3.0] * 20, None, "'3.0' in every row"),
        (["a", "b"] * 4, None, "only 8 rows have a value of 'y'"),
        ([f"name {number}" for number in range(20)], None, "20 classes in 20 rows"),
        (["a", "b"] * 6, REGRESSION, "12 values that are not numbers, such as 'a'"),
        ([*np.arange(30.0), np.inf], None, "1 values that are not numbers, such as 'inf'"),
    ],
)
def test_target_that_cannot_be_learned(values: object, task: Task | None, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_target(pd.Series(values, name="y"), task)


def test_held_out_rows_have_each_class_in_its_share() -> None:
    labels = np.array(["a"] * 50 + ["b"] * 30 + ["c"] * 3 + ["d"])
    held = held_out(Target(CLASSIFICATION, "", labels), 0.4, seed=1)
    assert [int(held[labels == name].sum()) for name in "abcd"] == [20, 12, 1, 0]
    assert np.array_equal(held, held_out(Target(CLASSIFICATION, "", labels), 0.4, seed=1))
    assert not np.array_equal(held, held_out(Target(CLASSIFICATION, "", labels), 0.4, seed=2))


def test_every_class_is_learned_even_from_a_few_rows() -> None:
    labels = np.array(["a"] * 2 + ["b"] * 20)
    assert not held_out(Target(CLASSIFICATION, "", labels), 0.99, seed=0)[:2].all()


def test_too_small_a_share_is_refused() -> None:
    with pytest.raises(ArgumentError, match="fewer than 2"):
        held_out(Target(REGRESSION, "", np.arange(20.0)), 0.05, seed=0)
