"""The fields of a column as texts and numbers, and which of them are missing."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas import Series

Array = NDArray[np.float64]

MOST_NUMBERS = 0.9
"""A text that is a number, or a date, in this share of its values is one, with the others missing."""
TRUTH = {"true": 1.0, "false": 0.0}
ABSENT = frozenset(["NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"])
"""Texts that mean a missing value."""


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
    if not isinstance(values.dtype, pd.StringDtype):
        values = values[values.notna()].map(str).astype("str").reindex(values.index)
    stripped = values.str.strip()
    return stripped.where(stripped != "")


def numbers(values: Series) -> Array:
    """(N) of texts such as -1234.5e6, or of numbers, as float64, with NaN for what is no number or not finite."""
    if not pd.api.types.is_numeric_dtype(values):
        values = pd.to_numeric(texts(values), errors="coerce")
    found = values.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(found), found, np.nan)
