"""New rows of a table to predictions with their uncertainty."""

from typing import Any

import numpy as np
from pandas import DataFrame, concat

from whvi.errors import ArgumentError
from whvi_tables.fields import Array
from whvi_tables.fitting import Model
from whvi_tables.judging import entropy
from whvi_tables.task import Task


def predict_table(model: Model, x: Array, level: float) -> DataFrame:
    """A row of predictions for each row of the matrix (N, features), in the same order.

    A regression has ``mean``, ``std``, and the ends of the interval, whose names say its level: ``low_90``,
    ``high_90``. A classification has ``class``, the ``probability_...`` of each, and the ``entropy`` in nats.
    """
    estimator: Any = model.estimator
    if model.task is Task.REGRESSION:
        mean, std = estimator.predict(x, return_std=True)
        low, high = estimator.predict_interval(x, level)
        share = f"{100 * level:.6g}"
        return DataFrame({"mean": mean, "std": std, f"low_{share}": low, f"high_{share}": high})
    probabilities = estimator.predict_proba(x)
    classes = np.array([str(name) for name in estimator.classes_])
    columns = {f"probability_{name}": probabilities[:, place] for place, name in enumerate(classes)}
    return DataFrame({"class": classes[probabilities.argmax(1)], **columns, "entropy": entropy(probabilities)})


def beside(inputs: DataFrame, predictions: DataFrame) -> DataFrame:
    """The columns of both; ArgumentError if two have one name."""
    both = [name for name in predictions.columns if name in inputs.columns]
    if both:
        raise ArgumentError(f"the table has {', '.join(map(repr, both))} already; rename that, or omit --keep")
    return concat([inputs, predictions], axis="columns")
