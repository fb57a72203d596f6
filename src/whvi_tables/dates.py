"""The date format of a column: chosen by the whole column, reported if ambiguous, and saved with the model."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas import Series
from pandas.api.types import is_datetime64_any_dtype

from whvi_tables.fields import MOST_NUMBERS, Array, texts

ISO = "2024-12-31"
FORMS = {
    ISO: "ISO8601",
    "31.12.2024": "%d.%m.%Y",
    "12/31/2024": "%m/%d/%Y",
    "31/12/2024": "%d/%m/%Y",
    "12-31-2024": "%m-%d-%Y",
    "31-12-2024": "%d-%m-%Y",
}
"""Date formats, by an example; a time may follow each."""
TWINS = {"12/31/2024": "31/12/2024", "12-31-2024": "31-12-2024"}
"""Month first, and day first."""
_DATE = r"\d{1,4}[./-]\d{1,2}(?:[./-]\d{1,4})?(?:[ T].*)?"
_CLOCK = r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*(?:([AaPp])\.?[Mm]\.?)?"


class DateStyle(NamedTuple):
    """The date format of a column."""

    form: str = ISO
    doubt: str = ""
    """An ambiguous date, and how it is read."""

    @property
    def said(self) -> str:
        """A note for the user; "" if there is none."""
        form = f"written as {self.form}" if self.form != ISO else ""
        return ", ".join(part for part in (form, self.doubt) if part)

    def read(self, values: Series) -> Array:
        """(N) days since 1970-01-01, with NaN for what is written otherwise.

        >>> DateStyle().read(Series(["1970-01-02", "1970-01-01T12:00", "soon"])).tolist()
        [1.0, 0.5, nan]
        >>> DateStyle("12/31/2024").read(Series(["1/2/1970", "01/01/1970 6:00 PM", "13/1/1970"])).tolist()
        [1.0, 0.75, nan]
        """
        if is_datetime64_any_dtype(values):
            return _days(values, FORMS[ISO])
        if self.form == ISO:
            return _days(texts(values), FORMS[ISO])
        parts = texts(values).str.split(r"[ T]+", n=1, expand=True, regex=True)
        dates = _days(parts[0], FORMS[self.form])
        return dates + _clock(parts[1]) if 1 in parts else dates


def learn_date_style(values: Series, comma: bool = False) -> DateStyle | None:
    """The format that reads most of a column, or None if none reads nine tenths of it.

    Args:
        comma: prefer the day before the month where both read as many, as where commas stand before decimals.

    >>> learn_date_style(Series(["1/2/2024", "1/31/2024"]))
    DateStyle(form='12/31/2024', doubt='')
    >>> learn_date_style(Series(["1/2/2024", "3/4/2024"]))
    DateStyle(form='12/31/2024', doubt="'1/2/2024' is read as 2024-01-02")
    """
    present = texts(values).dropna()
    if is_datetime64_any_dtype(values):
        return DateStyle() if len(present) else None
    if not present.iloc[:100].str.fullmatch(_DATE).any():
        return None
    order = sorted(FORMS, key=lambda form: form != ISO and form in TWINS) if comma else list(FORMS)
    found: dict[str, Array] = {}
    for form in order:
        found[form] = DateStyle(form).read(present)
        if np.isfinite(found[form]).all():
            break
    counts = {form: int(np.isfinite(days).sum()) for form, days in found.items()}
    best = max(found, key=counts.__getitem__)
    if counts[best] < MOST_NUMBERS * len(present):
        return None
    twin = {**TWINS, **{day: month for month, day in TWINS.items()}}.get(best)
    return DateStyle(best, "" if twin is None else _doubt(present, found[best], DateStyle(twin).read(present)))


def _doubt(present: Series, first: Array, second: Array) -> str:
    """The first text that two forms read differently, where both read as many."""
    differ = np.flatnonzero(np.isfinite(first) & np.isfinite(second) & (first != second))
    if np.isfinite(second).sum() < np.isfinite(first).sum() or not len(differ):
        return ""
    return f"{present.iloc[differ[0]][:40]!r} is read as {np.datetime64(int(first[differ[0]]), 'D')}"


def _days(moments: Series, form: str) -> Array:
    found = pd.to_datetime(moments, format=form, errors="coerce", utc=True)
    # In microseconds, as nanoseconds end in 2262.
    return np.asarray((found.to_numpy("datetime64[us]") - np.datetime64(0, "us")) / np.timedelta64(1, "D"))


def _clock(times: Series) -> Array:
    """(N) of texts such as 6:30 or 6:30:00 PM, in days: 0 where there is none, NaN where it is no time."""
    parts = times.str.extract(rf"^{_CLOCK}$")
    hours, minutes, seconds = (pd.to_numeric(parts[place]).to_numpy(np.float64, na_value=np.nan) for place in range(3))
    half = parts[3].str.lower()
    hours = np.where(half.notna(), hours % 12, hours) + 12.0 * (half == "p").to_numpy(bool, na_value=False)
    days = (hours + minutes / 60 + np.nan_to_num(seconds) / 3600) / 24
    return np.where(times.isna(), 0.0, np.where(days < 1, days, np.nan))
