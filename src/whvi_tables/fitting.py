"""From a table to a model, with its evaluation on held-out rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from whvi.errors import ArgumentError
from whvi.sklearn import WHVIClassifier, WHVIRegressor
from whvi_tables.columns import Columns
from whvi_tables.judging import LEVELS, Classes, Judgement, Numbers
from whvi_tables.reading import Table
from whvi_tables.settings import Settings
from whvi_tables.styles import Style, learn_style
from whvi_tables.task import Task, has_target, held_out, read_target

ESTIMATORS = {Task.REGRESSION: WHVIRegressor, Task.CLASSIFICATION: WHVIClassifier}


@dataclass(frozen=True)
class Model:
    """A model that predicts new rows."""

    task: Task
    target: str
    columns: Columns
    estimator: Any


@dataclass(frozen=True)
class Fitted:
    """A model, and facts about it for the report."""

    model: Model
    reason: str
    """Why it is this task."""
    judgement: Judgement
    missing: dict[str, int]
    """Fields that are taken as missing in each column, of the rows that were used."""
    rows: int
    """In the table."""
    without_target: int
    """Dropped rows."""
    notes: tuple[str, ...]
    """How the file was read."""


def fit_table(table: Table, settings: Settings, say: Callable[[str], None], progress: bool = False) -> Fitted:
    """Fit a model to a part of the rows with a target, and evaluate it on the others.

    Args:
        say: called with each sentence for the user.
        progress: show a progress bar on standard error.
    """
    name, frame = settings.target, table.frame
    check_names(frame, settings)
    for note in table.notes:
        say(f"The file: {note}.")
    style = learn_style(frame[name], table.comma) or Style()
    known = frame[has_target(frame[name], style)]
    lost = len(frame) - len(known)
    if lost:
        say(f"{lost:,} of {len(frame):,} rows have no {name} and are dropped.")
    target = read_target(known[name], settings.task, style)
    other = next(task for task in Task if task is not target.task)
    hint = f" If that is wrong: --task {other}" if target.either else ""
    say(f"Task: {target.task} of {name} ({target.reason}).{hint}")
    held = held_out(target, settings.test_share, settings.seed)
    inputs = known.drop(columns=name)
    columns = Columns.learn(inputs[~held], settings.drop, table.comma)
    inputs = columns.as_learned(table._replace(frame=inputs))
    tell_columns(columns, say)
    options = settings.for_estimator()
    if target.task is Task.CLASSIFICATION and options.pop("noise", None):
        raise ArgumentError("noise is a setting of a regression, but this is a classification; omit it")
    estimator = ESTIMATORS[target.task](**options, verbose=progress)
    say(
        f"Training on {int((~held).sum()):,} rows, {len(columns.features)} features; {int(held.sum()):,} rows held out."
    )
    estimator.fit(columns.matrix(inputs[~held]).values, target.values[~held])
    estimator.set_params(verbose=False)
    unseen = columns.matrix(inputs[held])
    for column, note in unseen.notes.items():
        say(f"  held-out rows, {column}: {note}")
    judge = judge_numbers if target.task is Task.REGRESSION else judge_classes
    judgement = judge(estimator, unseen.values, known.index.to_numpy()[held], target.values, held, settings.level)
    missing = {kind.name: int(kind.absent(inputs[kind.name]).sum()) for kind in columns.kinds}
    model = Model(target.task, name, columns, estimator)
    return Fitted(model, target.reason, judgement, missing, len(frame), lost, table.notes)


def tell_columns(columns: Columns, say: Callable[[str], None]) -> None:
    """A sentence for all columns that are treated alike."""
    alike: dict[str, list[str]] = {}
    for kind in columns.kinds:
        alike.setdefault(f"{kind.kind}, {kind.said}", []).append(kind.name)
    for said, names in alike.items():
        rest = f" and {len(names) - 8} more" if len(names) > 9 else ""
        say(f"  {', '.join(names[:8] if rest else names)}{rest}: {said}")


def check_names(frame: DataFrame, settings: Settings) -> None:
    """Raise an ArgumentError if the target or a column to drop does not exist."""
    there = ", ".join(map(repr, frame.columns))
    if settings.target not in frame.columns:
        raise ArgumentError(f"the table has no column {settings.target!r} to predict; it has {there:.300}")
    for name in settings.drop:
        if name not in frame.columns:
            raise ArgumentError(f"the table has no column {name!r} to drop; it has {there:.300}")
    if settings.target in settings.drop:
        raise ArgumentError(f"{settings.target!r} is the target and cannot be dropped; choose one of them")


def judge_numbers(
    estimator: Any, x: NDArray[Any], rows: NDArray[Any], y: NDArray[Any], held: NDArray[np.bool_], level: float
) -> Numbers:
    """Predictions of a regression for the held-out rows."""
    mean, std = estimator.predict(x, return_std=True)
    low, high = estimator.predict_interval(x, level)
    quantiles = estimator.predict_quantiles(x, LEVELS.tolist())
    truth = y[held]
    return Numbers(rows, truth, mean, std, low, high, level, quantiles, estimator.log_prob(x, truth), y[~held])


def judge_classes(
    estimator: Any, x: NDArray[Any], rows: NDArray[Any], y: NDArray[Any], held: NDArray[np.bool_], level: float
) -> Classes:
    """Probabilities of a classification for the held-out rows."""
    classes = tuple(map(str, estimator.classes_))
    return Classes(rows, y[held], classes, estimator.predict_proba(x), y[~held])
