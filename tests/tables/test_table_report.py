"""The report of a fit: what it shows, that it needs nothing else, and how it looks in a browser."""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from whvi.page import check_svg
from whvi_tables import pictures
from whvi_tables.fitting import Fitted, fit_table
from whvi_tables.judging import LEVELS, Numbers
from whvi_tables.reading import Table
from whvi_tables.report import MOST_ROWS, headline, page
from whvi_tables.settings import Settings

WILD = "<b>price</b> & $tax_{$"
SETTINGS = {
    "numbers": Settings(WILD, steps=20, hidden=(8,), early_stopping=True),
    "classes": Settings("town", steps=20, hidden=(8,), drop=(WILD,), test_share=0.5),
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"<i>size</i>": rng.normal(size=500), "town": ["Ulm", "Bonn", "<u>$Rome{$"] * 166 + ["Ulm"] * 2}
    )
    frame[WILD] = frame["<i>size</i>"] + rng.normal(size=500)
    return frame


@pytest.fixture(scope="module", params=SETTINGS)
def fitted(request: pytest.FixtureRequest, table: pd.DataFrame) -> tuple[Fitted, Settings]:
    settings = SETTINGS[request.param]
    return fit_table(Table(table), settings, lambda _: None), settings


def test_report_shows_all_of_it(fitted: tuple[Fitted, Settings]) -> None:
    found, settings = fitted
    text = page(found, settings, "a<b.csv")
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", text)
    pictures = ["Predictions against truth", "Calibration", "Uncertainty", "Learning curve"]
    assert [name for name in headings if name in pictures] == pictures
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert check_svg(drawing)
        assert not re.search(r"#fe010\d|#000000|#ffffff", drawing)  # all colours follow the page
    for metric in found.judgement.metrics:
        assert metric.shown(metric.value).replace(" %", "\u00a0%") in text
        assert escape(metric.name).replace(" %", "\u00a0%") in text
    for kind in found.model.columns.kinds:
        assert escape(kind.said) in text
    rows = re.findall(r'<tr[^>]*><th scope="row">(\d+)</th>', text)
    assert [int(row) - 1 for row in rows] == found.judgement.rows[:MOST_ROWS].tolist()
    assert text.count('<tr class="miss">') == int((~found.judgement.hits[:MOST_ROWS]).sum())
    assert ("The first 200 of 250." in text) == (len(found.judgement.rows) == 250)
    assert "a&lt;b.csv" in text
    assert not re.search(r"<b>price|<i>size|<u>|(src|href)=.(?!#)", text)


def test_a_page_of_many_rows_is_as_long_as_that_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_POINTS", 50)
    rng = np.random.default_rng(0)
    sizes = []
    for count in (100, 10_000):
        y, std = rng.normal(size=count), np.ones(count)
        quantiles = np.zeros((count, len(LEVELS)))
        found = Numbers(np.arange(count), y, 0 * y, std, -std, std, 0.9, quantiles, -std, y)
        history = {"step": [1, 2], "elbo": [0.0, 1.0], "validation_mnll": [np.nan] * 2}
        shown = pictures.pictures(found, history, "y")
        sizes.append(sum(len(picture.svg) for picture in shown))
        assert "(here 50 of them): the predicted mean" in shown[0].caption
        assert f"interval holds y: {int(found.hits.sum()):,}" in shown[2].svg
    assert sizes[1] < 1.2 * sizes[0]


def test_report_is_a_function_of_the_fit(fitted: tuple[Fitted, Settings]) -> None:
    assert page(*fitted, "table.csv") == page(*fitted, "table.csv")


def test_headline_is_honest(fitted: tuple[Fitted, Settings]) -> None:
    found = fitted[0].judgement
    assert ("not better than" in headline(found)) == (not found.metrics[0].wins)


def test_report_in_a_browser(
    fitted: tuple[Fitted, Settings], tmp_path: Path, measure_on_phone: Callable[[Path], Any]
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(*fitted, "table.csv"))
    found = measure_on_phone(path)
    assert found.width <= found.window  # it does not move sideways
    assert found.scrolling >= 1  # a wide table does, in its own box
    assert found.requests == 0
