"""Numbers and dates as people write them: the column decides, doubt is said, and the model keeps the rule."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from whvi.errors import ArgumentError
from whvi.io import canonical
from whvi_tables import dates
from whvi_tables.columns import Columns, learn_kind
from whvi_tables.dates import DateStyle, learn_date_style
from whvi_tables.kinds import Category, Date, Dropped, Number
from whvi_tables.reading import Table
from whvi_tables.styles import FORMS, PLAIN, Style, learn_style
from whvi_tables.task import has_target, read_target


def written(value: float, form: str) -> str:
    """A number in a form: the inverse of reading."""
    thousands, decimal = FORMS[form]
    return f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 2)), min_size=1, max_size=5),
    st.sampled_from(list(FORMS)),
)
def test_what_is_written_in_a_form_is_read_back(values: list[float], form: str) -> None:
    """Law: read(written(x)) == x in each form; learned from the texts alone, it is the same where there is no doubt."""
    texts = pd.Series([written(value, form) for value in values])
    assert_array_equal(Style(form).read(texts), values)
    learned = learn_style(texts)
    assert learned is not None
    assert learned.doubt or np.array_equal(learned.read(texts), values)


@pytest.mark.parametrize(
    ("values", "comma", "style", "found"),
    [
        (["$1,200.50", "$80", "-$3"], False, Style("1,234.5", "$"), [1200.5, 80.0, -3.0]),
        (["1.200,50 €", "80 €", "- 3 €"], False, Style("1.234,5", "€"), [1200.5, 80.0, -3.0]),
        (["1 200,5", "80,25", "\u22123"], False, Style("1 234,5"), [1200.5, 80.25, -3.0]),
        (["1’200.5", "CHF 80"], False, Style("1'234.5", "CHF"), [1200.5, 80.0]),
        (["12%", "3.5 %"], False, Style(unit="%"), [12.0, 3.5]),
        (["12,5%", "3 %"], False, Style("1234,5", "%"), [12.5, 3.0]),
        (["1,5", "2,25"], False, Style("1234,5"), [1.5, 2.25]),
        (["1,200", "80"], False, Style("1,234.5", doubt="'1,200' is read as 1200"), [1200.0, 80.0]),
        (["1,200", "80"], True, Style("1234,5", doubt="'1,200' is read as 1.2"), [1.2, 80.0]),
        (["1.200", "2.300"], False, Style(doubt="'1.200' is read as 1.2"), [1.2, 2.3]),
        (["0.120", "2.300"], False, Style(), [0.12, 2.3]),
        (["1,200", "1,2345"], False, Style("1234,5"), [1.2, 1.2345]),
        ([1200.0, 2.5], False, Style(), [1200.0, 2.5]),
        ([*["5"] * 19, "1,200"], False, Style("1,234.5", doubt="'1,200' is read as 1200"), [*[5.0] * 19, 1200.0]),
        ([*["5"] * 19, "3 %"], False, Style(), [*[5.0] * 19, np.nan]),
        ([*["5 %"] * 19, "3"], False, Style(unit="%"), [*[5.0] * 19, np.nan]),
        ([*["$5"] * 19, "€3"], False, Style(unit="$"), [*[5.0] * 19, np.nan]),
    ],
)  # fmt: skip
def test_the_column_decides(values: list[object], comma: bool, style: Style, found: list[float]) -> None:
    assert learn_style(pd.Series(values), comma) == style
    assert_array_equal(style.read(pd.Series(values)), found)


@pytest.mark.parametrize("values", [["$5", "€3"], ["12%", "3"], ["1,2,3", "4,5"], ["a", "b"], ["1,200.5", "1.200,5"]])
def test_mixtures_are_no_numbers(values: list[str]) -> None:
    assert learn_style(pd.Series(values * 5)) is None
    assert isinstance(learn_kind("x", pd.Series(values * 5)), Category | Dropped)


@pytest.mark.parametrize("form", dates.FORMS)
@pytest.mark.parametrize("clock", ["", " 18:30", " 06:30:00 PM"])
def test_dates_of_each_form_are_read_back(form: str, clock: str) -> None:
    days = pd.date_range("2023-01-05", periods=40, freq="9D")
    pattern = "%Y-%m-%d" if form == dates.ISO else dates.FORMS[form]
    texts = pd.Series(days.strftime(pattern) + (clock if form != dates.ISO else clock and "T18:30"))
    learned = learn_date_style(texts)
    assert learned == DateStyle(form)
    wanted = np.asarray((days - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")) + (18.5 / 24 if clock else 0)
    assert_allclose(learned.read(texts), wanted)
    assert np.isnan(learned.read(pd.Series(["99/99/2024", "soon", "1/1/2024 25:00"]))).all()


def test_doubtful_dates_are_said() -> None:
    texts = pd.Series(["1/2/2024", "03/04/2024"])
    assert learn_date_style(texts) == DateStyle("12/31/2024", "'1/2/2024' is read as 2024-01-02")
    assert learn_date_style(texts, comma=True) == DateStyle("31/12/2024", "'1/2/2024' is read as 2024-02-01")
    assert learn_date_style(pd.Series(["1/2/2024", "31/1/2024"])) == DateStyle("31/12/2024")
    same = learn_date_style(pd.Series(["1/1/2024", "2/2/2024"]))
    assert same == DateStyle("12/31/2024")  # in either way


def test_the_rule_is_kept_for_new_rows() -> None:
    """New rows alone would be read otherwise."""
    frame = pd.DataFrame({
        "price": ["1.234,50 €", "800 €", "2.000 €"] * 4, "share": ["5,5 %", "12 %", "7 %"] * 4,
        "day": ["31.12.2023", "01.02.2024", "05.03.2024"] * 4, "due": ["31/12/2023", "01/02/2024", "05/03/2024"] * 4,
    })  # fmt: skip
    columns = Columns.learn(frame)
    assert [kind.said for kind in columns.kinds] == [
        "written as 1.234,5, in €",
        "written as 1234,5, 12 % is 12",
        "written as 31.12.2024; years, position in the year and in the week",
        "written as 31/12/2024; years, position in the year and in the week",
    ]
    again = Columns.from_json(canonical.parse(canonical.dump(columns.to_json())))
    assert again == columns
    new = pd.DataFrame({"price": ["1.500"], "share": ["3,250 %"], "day": ["03.04.2024"], "due": ["03/04/2024"]})
    found = again.matrix(new).values[0]
    assert found[:2].tolist() == [1500.0, 3.25]
    assert found[2] == found[7] == (pd.Timestamp("2024-04-03") - pd.Timestamp("1970-01-01")).days / 365.25
    strange = new.assign(price="1,500.5", share="0.03")
    notes = again.matrix(strange).notes
    assert "1 not a number, such as '1,500.5': treated as missing" in notes["price"]
    assert "'0.03'" in notes["share"]


def test_columns_of_an_earlier_version_are_plain() -> None:
    old = [{"kind": "number", "name": "a", "median": 1.0, "missing": False},
           {"kind": "date", "name": "b", "median": 1.0, "missing": False}]  # fmt: skip
    number, date = Columns.from_json(old).kinds
    assert (number, date) == (Number("a", 1.0, False), Date("b", 1.0, False))
    assert (number.form, date.form) == (PLAIN, dates.ISO)  # type: ignore[attr-defined]
    for wrong in ("1.234.5", 3, None):
        with pytest.raises(ArgumentError, match="does not describe columns"):
            Columns.from_json([{**old[0], "form": wrong}])


def test_commas_beside_semicolons_where_the_model_has_points() -> None:
    columns = Columns.learn(pd.DataFrame({"a": ["1.5", "2.5", "4"], "b": ["1,500.5", "20", "30"]}))
    table = Table(pd.DataFrame({"a": ["1,5"], "b": ["1,500"]}), comma=True)
    assert columns.matrix(columns.as_learned(table)).values.tolist() == [[1.5, 1500.0]]
    assert columns.matrix(columns.as_learned(table._replace(comma=False))).notes.keys() == {"a"}


def test_targets_are_written_in_a_style_too() -> None:
    values = pd.Series([f"${1000 + 10 * place:,}" for place in range(20)] + ["NA"], name="y")
    style = learn_style(values)
    assert style is not None
    assert has_target(values, style).tolist() == [True] * 20 + [False]
    found = read_target(values.iloc[:20], style=style)
    assert found.values.tolist() == [1000.0 + 10 * place for place in range(20)]
    assert found.reason == "numbers, 20 distinct values, written as 1,234.5, in $, '$1,000' is read as 1000"
