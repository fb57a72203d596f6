"""Columns of a table become numbers: against scikit-learn's own transformers, and by their laws."""

import json
import pickle
from datetime import date

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from whvi.errors import ArgumentError
from whvi.io import canonical
from whvi_tables.columns import MOST_CATEGORIES, Columns, learn_kind
from whvi_tables.kinds import MISSING, Boolean, Category, Date, Dropped, Number


def series(*values: object, name: str = "column") -> pd.Series:
    return pd.Series(list(values), name=name)


def test_numbers_are_those_of_scikit_learn(diabetes: pd.DataFrame) -> None:
    frame = diabetes[["age", "bmi", "bp"]]
    wanted = SimpleImputer(strategy="median", add_indicator=True).fit_transform(frame)
    found = Columns.learn(frame)
    assert found.features == ("age", "bmi", "bmi is missing", "bp")
    assert_allclose(found.matrix(frame).values, wanted[:, [0, 1, 3, 2]])


def test_categories_are_those_of_scikit_learn(diabetes: pd.DataFrame) -> None:
    frame = diabetes[["sex"]]
    wanted = OneHotEncoder(sparse_output=False).fit_transform(frame.fillna(MISSING))
    found = Columns.learn(frame)
    assert found.features == (f"sex = {MISSING}", "sex = female", "sex = male")
    assert_array_equal(found.matrix(frame).values, wanted)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (series("1", "2.5", None, "-1e3"), Number),
        (series(*["1", "2"] * 10, "?"), Number),
        (series(1, 2, 3), Number),
        (pd.Series([1, None, 3], dtype="Int64"), Number),
        (series(True, False, True), Boolean),
        (pd.Series([True, None, False], dtype="boolean"), Boolean),
        (series("TRUE", "false", None), Boolean),
        (series("2020-01-31", "2021-12-01T10:00", None), Date),
        (pd.Series(pd.date_range("2020", periods=3, tz="Europe/Berlin")), Date),
        (series(*"aabb"), Category),
        (pd.Series([*"aabb"], dtype="category"), Category),
        (series("x", "x", None), Category),
        (series("5", "5", None), Number),
        (series("1", "NA", "3", "null", "5"), Number),
        (series("1000-01", "1000-02", "9999-12"), Date),
        (series(None, None), Dropped),
        (series("NA", None), Dropped),
        (series(np.inf, -np.inf, None), Dropped),
        (series("x", "x"), Dropped),
        (series(7.0, 7.0), Dropped),
        (series(*"abcde"), Dropped),
        (series(*(f"t{number}" for number in range(MOST_CATEGORIES + 1)) , *["t0"] * 500), Dropped),
        (series([1], [2], [3]), Dropped),
        (series(3, 1, 2, name="customer_id"), Dropped),
        (series(3, 1, 1, name="customer_id"), Number),
    ],
)  # fmt: skip
def test_kind_of_a_column(values: pd.Series, kind: type) -> None:
    assert type(learn_kind(str(values.name), values)) is kind


def test_fields_of_a_csv_and_typed_ones_mean_the_same(diabetes: pd.DataFrame) -> None:
    texts = (
        diabetes.astype(object).where(diabetes.notna(), None).map(lambda value: None if value is None else str(value))
    )
    typed, read = Columns.learn(diabetes), Columns.learn(texts)
    assert typed == read
    assert_array_equal(typed.matrix(diabetes).values, read.matrix(texts).values)


def test_date_is_a_time_and_two_circles() -> None:
    frame = pd.DataFrame({"day": ["1970-01-01", "1971-01-01", "1970-01-08"]})
    years, *circles = Columns.learn(frame).matrix(frame).values.T
    assert_allclose(years, np.array([0, 365, 7]) / 365.25)
    year, week = np.array(circles[:2]), np.array(circles[2:])
    assert_allclose(np.hypot(*year), 1.0)
    assert_allclose(year[:, 0], year[:, 1], atol=0.01)  # the same day of another year
    assert_allclose(week[:, 0], week[:, 2], atol=1e-12)  # the same day of another week


def test_dates_far_from_now() -> None:
    frame = pd.DataFrame({"day": ["1500-01-01", "2999-12-31T12:00", None]})
    columns = Columns.learn(frame)
    wanted = (
        np.array([date(1500, 1, 1).toordinal(), date(2999, 12, 31).toordinal() + 0.5]) - date(1970, 1, 1).toordinal()
    )
    assert_allclose(columns.matrix(frame).values[:2, 0], wanted / 365.25)
    assert "median 2249-12-31" in columns.kinds[0].said
    typed = frame["day"].astype("datetime64[s]").to_frame()
    assert_array_equal(columns.matrix(typed).values, columns.matrix(frame).values)


def test_missing_values_are_counted_by_the_rule_of_the_column() -> None:
    frame = pd.DataFrame({"size": [*["1", "2", "3"] * 6, "?", "NA"], "town": [*["Ulm", "Bonn"] * 9, " ", "None"]})
    columns = Columns.learn(frame)
    marks = columns.matrix(frame).values[
        :, [columns.features.index(f) for f in ("size is missing", "town = (missing)")]
    ]
    counts = [int(kind.absent(frame[kind.name]).sum()) for kind in columns.kinds]
    assert counts == [2, 2] == marks.sum(0).tolist()


def test_row_does_not_depend_on_its_neighbours(diabetes: pd.DataFrame) -> None:
    columns = Columns.learn(diabetes)
    whole = columns.matrix(diabetes).values
    assert whole.shape == (len(diabetes), len(columns.features))
    assert np.isfinite(whole).all()
    alone = np.concatenate([columns.matrix(diabetes.iloc[[row]]).values for row in range(10)])
    assert_array_equal(alone, whole[:10])


def test_strange_fields_of_new_rows_are_said_and_harmless() -> None:
    frame = pd.DataFrame({"size": [1.0, 2.0, 4.0] * 4, "town": ["Ulm", "Bonn", "Ulm"] * 4})
    columns = Columns.learn(frame)
    new = pd.DataFrame({"more": [1, 2, 3], "town": ["Rome", None, " Ulm "], "size": ["large", np.inf, "3"]})
    found = columns.matrix(new)
    assert columns.features == ("size", "town = Bonn", "town = Ulm")
    assert found.values.tolist() == [[2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 1.0]]
    assert "2 not a number, such as 'large'" in found.notes["size"]
    assert "2 not seen in training, such as '(missing)', 'Rome'" in found.notes["town"]
    assert columns.matrix(frame).notes == {}
    assert "1 missing: median 2" in columns.matrix(pd.DataFrame({"size": [None], "town": ["Ulm"]})).notes["size"]


def test_absent_columns_are_named_unless_they_are_not_used(diabetes: pd.DataFrame) -> None:
    columns = Columns.learn(diabetes, drop=["s1"])
    columns.matrix(diabetes.drop(columns=["s1", "country", "id", "name"]))
    with pytest.raises(ArgumentError, match="no column 'age', 'visit', which the model needs"):
        columns.matrix(diabetes.drop(columns=["age", "visit"]))


def test_no_column_left_says_why() -> None:
    with pytest.raises(ArgumentError, match=r"a: constant: always 1; b: dropped by --drop"):
        Columns.learn(pd.DataFrame({"a": [1, 1], "b": [1, 2]}), drop=["b"])
    with pytest.raises(ArgumentError, match="no column is left"):
        Columns.learn(pd.DataFrame(index=range(3)))


def test_columns_come_back_from_json(diabetes: pd.DataFrame) -> None:
    columns = Columns.learn(diabetes, drop=["s2"])
    assert Columns.from_json(canonical.parse(canonical.dump(columns.to_json()))) == columns
    assert Columns.from_json(json.loads(json.dumps(columns.to_json()))) == columns
    assert pickle.loads(pickle.dumps(columns)) == columns


@pytest.mark.parametrize("wrong", [None, 3, [3], [{}], [{"kind": "new"}], [{"kind": "number", "name": "a"}]])
def test_other_json_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match="does not describe columns"):
        Columns.from_json(wrong)
