"""What a target asks for, and the rows that judge."""

import numpy as np
import pandas as pd
import pytest

from whvi.errors import ArgumentError
from whvi_tables.task import Target, Task, has_target, held_out, read_target

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


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["NA", "FR", "", None, "None"], [1, 1, 0, 0, 1]),
        (["1", "2", "", "NA", "nan"], [1, 1, 0, 0, 0]),
        (["true", "False", "NULL"], [1, 1, 0]),
        ([1.5, np.nan, np.inf], [1, 0, 1]),
        (["NA", None], [0, 0]),
    ],
)
def test_rows_without_a_target(values: object, wanted: list[int]) -> None:
    assert has_target(pd.Series(values, name="y")).tolist() == [bool(value) for value in wanted]


def test_text_that_looks_missing_is_a_class() -> None:
    assert set(read_target(pd.Series(["NA", "FR"] * 6, name="y")).values) == {"NA", "FR"}


def test_other_task_is_offered_where_it_can_be() -> None:
    targets = {"texts": ["a", "b"] * 6, "whole": [0, 1] * 6, "few": [1.5, 2.5] * 6, "many": np.arange(20) / 2}
    either = {name: read_target(pd.Series(values, name="y")).either for name, values in targets.items()}
    assert either == {"texts": False, "whole": True, "few": True, "many": False}
    with pytest.raises(ArgumentError, match=r"choose another target$"):
        read_target(pd.Series([f"name {number}" for number in range(20)], name="y"))
    with pytest.raises(ArgumentError, match=r"or --task regression$"):
        read_target(pd.Series(range(20), name="y"), CLASSIFICATION)
    with pytest.raises(ArgumentError, match=r"or choose another target$"):
        read_target(pd.Series([f"name {number}" for number in range(20)], name="y"), REGRESSION)


def test_rows_to_learn_from_must_differ() -> None:
    values = np.array([*[3.0] * 19, 7.0])
    target = Target(REGRESSION, "", values)
    odd = {seed: np.random.default_rng(seed).permutation(20).tolist().index(19) < 10 for seed in range(8)}
    assert set(odd.values()) == {True, False}
    for seed, held in odd.items():
        if held:
            with pytest.raises(ArgumentError, match=r"the target is 3\.0 in all 10 training rows"):
                held_out(target, 0.5, seed)
        else:
            assert not held_out(target, 0.5, seed)[19]


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
    with pytest.raises(ArgumentError, match="of 100 rows in 50 classes, of each alike, leaves fewer than 2 to test on"):
        held_out(Target(CLASSIFICATION, "", np.repeat(np.arange(50).astype(str), 2)), 0.2, seed=0)
    with pytest.raises(ArgumentError, match="of 20 rows leaves fewer than 2"):
        held_out(Target(REGRESSION, "", np.arange(20.0)), 0.05, seed=0)


def test_true_and_false_are_two_classes_however_they_are_spelled() -> None:
    found = read_target(pd.Series(["True", "true", "FALSE", "False", "True", "False"] * 2, name="y"))
    assert found.reason == "true or false"
    assert found.values.tolist() == ["True", "True", "False", "False", "True", "False"] * 2
