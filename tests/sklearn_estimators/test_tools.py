"""Estimators among scikit-learn's tools, and frames as tables."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from whvi.errors import WhviError
from whvi.sklearn import WHVIClassifier, WHVIRegressor

QUICK: dict[str, Any] = {
    "n_members": 1,
    "hidden_layer_sizes": (16,),
    "max_steps": 60,
    "learning_rate": 0.05,
    "random_state": 0,
}
RNG = np.random.RandomState(0)
X = RNG.randn(90, 2)
Y = X[:, 0] - X[:, 1]


def test_grid_search_finds_the_steps_that_learn() -> None:
    grid = GridSearchCV(WHVIRegressor(**QUICK), {"max_steps": [1, 60]}, cv=3).fit(X, Y)
    assert grid.best_params_ == {"max_steps": 60}
    assert cross_val_score(WHVIClassifier(**QUICK), X, Y > 0, cv=3).mean() > 0.8


def test_fits_in_two_processes_are_the_fits_of_one() -> None:
    kinds = [WHVIRegressor(**QUICK), WHVIRegressor(**{**QUICK, "random_state": 1})]
    found = Parallel(n_jobs=2)(delayed(model.fit)(X, Y) for model in kinds)
    for model, other in zip(kinds, found, strict=True):
        assert (clone(model).fit(X, Y).predict(X) == other.predict(X)).all()


def test_clone_and_pickle() -> None:
    model = WHVIRegressor(**QUICK).fit(X, Y)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "model_")
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_pipeline_with_strings_in_the_table() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    model = make_pipeline(encode, WHVIRegressor(**QUICK)).fit(frame, Y)
    assert model.score(frame, Y) > 0.5
    mean, std = model.predict(frame, return_std=True)
    assert mean.shape == std.shape == (90,)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_have_names_and_an_order(frame: Any) -> None:
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    model = WHVIRegressor(**QUICK).fit(table, Y)
    assert list(model.feature_names_in_) == ["a", "b"]
    assert (model.predict(table) == WHVIRegressor(**QUICK).fit(X, Y).predict(X)).all()
    with pytest.raises(ValueError, match="order"):
        model.predict(table[["b", "a"]])
    with pytest.raises(ValueError, match="names"):
        model.predict(frame({"a": X[:, 0], "c": X[:, 1]}))


def test_targets_of_frames() -> None:
    wanted = WHVIRegressor(**QUICK).fit(X, Y).predict(X)
    for y in (pd.Series(Y), pl.Series(Y)):
        assert (WHVIRegressor(**QUICK).fit(X, y).predict(X) == wanted).all()
    labels = pl.Series(np.where(Y > 0, "up", "down"))
    assert set(WHVIClassifier(**QUICK).fit(X, labels).predict(X)) == {"up", "down"}


def test_missing_values_are_named() -> None:
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        WHVIRegressor(**QUICK).fit(bad, Y)
    with pytest.raises(WhviError, match="max_steps"):
        WHVIRegressor(max_steps=-1).fit(X, Y)
