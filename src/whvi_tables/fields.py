"""The fields of a column as texts, numbers and dates, and which of them are missing."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import Series

Array = NDArray[np.float64]

MOST_NUMBERS = 0.9
"""A text that is a number, or a date, in this share of its values is one, with the others missing."""
TRUTH = {"true": 1.0, "false": 0.0}
ABSENT = frozenset(["NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"])
"""Texts that say that there is no value."""


def texts(values: Series) -> Series:
    """Each value as text without spaces around it; missing ones, also empty texts and those of ABSENT, as missing.

    >>> texts(pd.Series([" a", None, 3, "NA", ""])).dropna().tolist()
    ['a', '3']
    """
    found = filled(values)
    return found.where(~found.isin(ABSENT))


def filled(values: Series) -> Series:
    """``texts`` in which only missing and empty fields are missing.

    >>> filled(pd.Series([" a", None, 3, "NA", ""])).dropna().tolist()
    ['a', '3', 'NA']
    """
    present = values[values.notna()].map(str).astype(object).str.strip()
    return present[present != ""].reindex(values.index)


def numbers(values: Series) -> Array:
    """(N) as float64, with NaN for what is no number or not finite."""
    if not pd.api.types.is_numeric_dtype(values):
        values = pd.to_numeric(texts(values), errors="coerce")
    found = values.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(found), found, np.nan)


def days(values: Series) -> Array:
    """(N) days since 1970-01-01 of dates in the form of ISO 8601, with NaN for what is none.

    >>> days(pd.Series(["1970-01-02", "1970-01-01T12:00", "soon"])).tolist()
    [1.0, 0.5, nan]
    """
    typed = pd.api.types.is_datetime64_any_dtype(values)
    moments = pd.to_datetime(values if typed else texts(values), format="ISO8601", errors="coerce", utc=True)
    # In microseconds, as nanoseconds end in 2262.
    return np.asarray((moments.to_numpy("datetime64[us]") - np.datetime64(0, "us")) / np.timedelta64(1, "D"))
