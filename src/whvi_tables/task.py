"""The task, regression or classification, guessed from the target, and the held-out rows."""

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pandas import Series
from pandas.api.types import is_bool_dtype

from whvi.errors import ArgumentError
from whvi_tables.fields import MOST_NUMBERS, TRUTH, filled, texts
from whvi_tables.styles import Style

PLAIN = Style()
MOST_CLASSES = 10
"""Whole numbers with more values than this are amounts, not classes."""
FEWEST_ROWS = 10


class Task(StrEnum):
    """What is predicted."""

    REGRESSION = "regression"
    CLASSIFICATION = "classification"


class Target(NamedTuple):
    """The targets of the rows that have one."""

    task: Task
    reason: str
    """Why it is this task."""
    values: NDArray[Any]
    """(N) float64 of a regression, (N) texts of a classification."""
    either: bool = False
    """Whether the values allow the other task, too."""


def has_target(values: Series, style: Style = PLAIN) -> NDArray[np.bool_]:
    """Which rows have a target: (N). ``NA`` and its like are none among numbers, but a class among texts.

    >>> has_target(Series(["FR", "NA", ""])).tolist(), has_target(Series(["1", "NA", ""])).tolist()
    ([True, True, False], [True, False, False])
    """
    present = texts(values)
    rest = present.dropna()
    plain = set(rest.str.lower()) <= TRUTH.keys() or np.isfinite(style.read(rest)).mean() >= MOST_NUMBERS
    return np.asarray((present if plain else filled(values)).notna())


def read_target(values: Series, task: Task | None = None, style: Style = PLAIN) -> Target:
    """The targets of a column without missing values, written in a style; ``task`` overrides the guess.

    >>> read_target(Series(["1.5", "2", "7.25"] * 4))[:2]
    (<Task.REGRESSION: 'regression'>, 'numbers, 3 distinct values')
    """
    name = repr(values.name)
    if len(values) < FEWEST_ROWS:
        raise ArgumentError(f"only {len(values)} rows have a value of {name}; at least {FEWEST_ROWS} are needed")
    labels, found = filled(values), style.read(values)
    guess, reason = guess_task(labels, found)
    if is_bool_dtype(values):
        guess, reason = Task.CLASSIFICATION, "true or false"
    if task is not None:
        guess, reason = task, "as asked"
    truth = labels.str.lower().map(TRUTH)
    if guess is Task.CLASSIFICATION and not truth.isna().any():  # True and true are one class: the usual spelling
        labels = truth.map(labels.groupby(truth).agg(lambda spelled: spelled.mode().iloc[0]))
    if labels.nunique() == 1:
        raise ArgumentError(f"the target {name} is {labels.iloc[0][:40]!r} in every row; choose a target that varies")
    strange = labels[np.isnan(found)]
    many = 2 * labels.nunique() > len(labels)
    if guess is Task.CLASSIFICATION:
        if many:
            raise ArgumentError(
                f"the target {name} has {labels.nunique():,} classes in {len(labels):,} rows; choose another target"
                + ("" if len(strange) else ", or --task regression")
            )
        return Target(guess, reason, labels.to_numpy(str), either=not len(strange))
    if len(strange):
        raise ArgumentError(
            f"the target {name} has {len(strange)} values that are not numbers, such as {strange.iloc[0][:40]!r}; "
            f"fix them, or {'choose another target' if many else 'use --task classification'}"
        )
    return Target(guess, f"{reason}, {style.said}" if style.said else reason, found, either=not many)


def guess_task(labels: Series, found: NDArray[np.float64]) -> tuple[Task, str]:
    """The task and why, from the targets as texts and as numbers (NaN for what is none)."""
    distinct = labels.nunique()
    if set(labels.str.lower()) <= TRUTH.keys():
        return Task.CLASSIFICATION, "true or false"
    if np.isnan(found).mean() > 0.1:
        return Task.CLASSIFICATION, f"texts, {distinct:,} distinct values"
    whole = not np.isnan(found).any() and bool((found == np.round(found)).all())
    if whole and (distinct == 2 or distinct <= min(MOST_CLASSES, len(labels) // 10)):
        return Task.CLASSIFICATION, f"whole numbers, only {distinct} distinct values"
    return Task.REGRESSION, f"numbers, {distinct:,} distinct values"


def held_out(target: Target, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows are held out: a random ``share``, the same for each class; (N).

    Law: every class has a row that is not held out, and two of these rows differ.
    """
    generator = np.random.default_rng(seed)
    classes = target.values if target.task is Task.CLASSIFICATION else np.zeros(len(target.values))
    held = np.zeros(len(classes), dtype=bool)
    for label in np.unique(classes):
        rows = generator.permutation(np.flatnonzero(classes == label))
        held[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    if held.sum() < 2:
        raise ArgumentError(
            f"a --test-share of {share:g} of {len(held)} rows{_of_classes(classes)} leaves fewer than 2 to test on; "
            "raise it, or give more rows"
        )
    learned = target.values[~held]
    if (learned == learned[0]).all():
        raise ArgumentError(
            f"the target is {learned[0]} in all {len(learned)} training rows, because the others were held out; "
            "choose another --seed or --test-share, or give more rows"
        )
    return held


def _of_classes(classes: NDArray[Any]) -> str:
    count = len(np.unique(classes))
    return f" in {count} classes, of each alike," if count > 1 else ""
