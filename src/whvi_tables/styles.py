"""The number format of a column: thousands separator, decimal mark and unit.

It is chosen by the whole column, reported if two formats fit, and saved with the model, so that the numbers of
new rows are read in the same way.
"""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas import Series
from pandas.api.types import is_numeric_dtype

from whvi_tables.fields import MOST_NUMBERS, Array, numbers, texts

PLAIN = "1234.5"
FORMS = {
    PLAIN: ("", "."),
    "1,234.5": (",", "."),
    "1 234.5": (" ", "."),
    "1'234.5": ("'", "."),
    "1234,5": ("", ","),
    "1.234,5": (".", ","),
    "1 234,5": (" ", ","),
}
"""Number formats, by an example: thousands separator and decimal mark."""
PERCENT = "%"
_UNIT = r"(%|[$¢£¥฿₠-⃀]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR)\b)"
_SAME = {"\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u2019": "'", "\u2212": "-"}
"""Other characters for the same marks."""
_DOUBTFUL = r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+"
"""A plain number that has three digits after each point."""


class Style(NamedTuple):
    """The number format of a column."""

    form: str = PLAIN
    unit: str = ""
    """What stands before or after a number, such as $; % stands at each of them."""
    doubt: str = ""
    """An ambiguous number, and how it is read."""

    @property
    def said(self) -> str:
        """A note for the user; "" if there is none."""
        form = f"written as {self.form}" if self.form != PLAIN else ""
        unit = "12 % is 12" if self.unit == PERCENT else f"in {self.unit}" if self.unit else ""
        return ", ".join(part for part in (form, unit, self.doubt) if part)

    def read(self, values: Series) -> Array:
        """(N) as float64, with NaN for what is written otherwise or not finite.

        >>> Style("1.234,5", "€").read(Series(["€ 1.234,50", "-3 €", "1,234.5", "12 %"])).tolist()
        [1234.5, -3.0, nan, nan]
        """
        if self[:2] == (PLAIN, "") or is_numeric_dtype(values):
            return numbers(values)
        bare, unit = _parts(values)
        allowed = unit == self.unit if self.unit == PERCENT else unit.isin(["", self.unit])
        return _numbers(bare.where(allowed), self.form)


def learn_style(values: Series, comma: bool = False) -> Style | None:
    """The format that reads most of a column, or None if none reads nine tenths of it.

    Args:
        comma: prefer a comma before decimals where two styles read as many.

    >>> learn_style(Series(["$1,200.50", "$80"]))
    Style(form='1,234.5', unit='$', doubt='')
    >>> learn_style(Series(["1,200", "80"])).doubt
    "'1,200' is read as 1200"
    >>> learn_style(Series(["1,200", "80"]), comma=True).doubt
    "'1,200' is read as 1.2"
    """
    present = texts(values).dropna()
    if is_numeric_dtype(values) or np.isfinite(numbers(present)).all():
        return Style(doubt=_plain_doubt(values, present)) if len(present) else None
    bare, units = _parts(present)
    unit = _unit(units)
    allowed = units == unit if unit == PERCENT else units.isin(["", unit])
    order = sorted(FORMS, key=lambda form: FORMS[form][1] == "." and form != PLAIN) if comma else list(FORMS)
    found = {form: _numbers(bare.where(allowed), form) for form in order}
    counts = {form: int(np.isfinite(read).sum()) for form, read in found.items()}
    best = max(order, key=counts.__getitem__)
    if counts[best] < MOST_NUMBERS * len(present) or not counts[best]:
        return None
    return Style(best, unit, _doubt(present, found, [form for form in order if counts[form] == counts[best]]))


def _unit(units: Series) -> str:
    """The most frequent of a column; % only if most numbers have it, as 12 % is not 12 where others have none."""
    counts = units.value_counts()
    unit = next((name for name in counts.index if name), "")
    return "" if unit == PERCENT and counts[unit] < counts.get("", 0) else unit


def _parts(values: Series) -> tuple[Series, Series]:
    """Each text without its unit, and the unit; a text with two of them is kept with the second."""
    found = texts(values)
    for other, mark in _SAME.items():
        found = found.str.replace(other, mark, regex=False)
    unit = found.str.extract(_UNIT, expand=False)
    bare = found.str.replace(_UNIT, "", n=1, regex=True).str.strip()
    return bare.str.replace(r"^([+-])\s+", r"\1", regex=True), unit.where(unit.notna(), "")


def _numbers(bare: Series, form: str) -> Array:
    """(N), with NaN for what is not of the form."""
    thousands, decimal = (re.escape(mark) for mark in FORMS[form])
    whole = rf"(?:\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)" if thousands else r"\d+"
    pattern = rf"[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
    fits = bare.str.fullmatch(pattern).fillna(False).astype(bool)
    plain = bare.where(fits)
    for mark, wanted in zip(FORMS[form], ("", "."), strict=True):
        if mark and mark != wanted:
            plain = plain.str.replace(mark, wanted, regex=False)
    return numbers(plain)


def _doubt(present: Series, found: dict[str, Array], best: list[str]) -> str:
    """The first text that two of the best forms read differently."""
    first = found[best[0]]
    for form in best[1:]:
        differ = np.flatnonzero(np.isfinite(first) & np.isfinite(found[form]) & (first != found[form]))
        if len(differ):
            return f"{present.iloc[differ[0]][:40]!r} is read as {first[differ[0]]:.12g}"
    return ""


def _plain_doubt(values: Series, present: Series) -> str:
    """Of plain numbers that could all have points between thousands."""
    if is_numeric_dtype(values):
        return ""
    for part in (present.iloc[:100], present):  # a look at a few spares the look at all, nearly always
        if not part.str.fullmatch(_DOUBTFUL).all():
            return ""
    return f"{present.iloc[0][:40]!r} is read as {float(pd.to_numeric(present.iloc[0])):.12g}"
