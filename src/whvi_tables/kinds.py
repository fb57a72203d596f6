"""The kinds of columns, and their encodings.

A kind is learned from the training rows and is then a plain value: names and numbers that JSON can hold. That is why
it is not a ColumnTransformer of scikit-learn, whose fitted state can only be restored by pickle or by fitting again to
made-up rows. Tests hold that the numbers equal those of scikit-learn's transformers.

Law: ``encode`` of any rows is finite, and has one column for each of ``features``.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pandas import Series

from whvi_tables.dates import ISO, DateStyle
from whvi_tables.fields import TRUTH, Array, texts
from whvi_tables.styles import PLAIN, Style

MISSING = "(missing)"
"""The category of fields without a value."""


class Encoded(NamedTuple):
    """Numbers of a column, and notes about them."""

    values: Array
    """(N, features)."""
    note: str


@dataclass(frozen=True)
class Kind(ABC):
    """A column by its name."""

    name: str
    kind: ClassVar[str]

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """Names of the numbers it becomes."""

    @property
    @abstractmethod
    def said(self) -> str:
        """Its encoding, as text for the user."""

    @abstractmethod
    def encode(self, values: Series) -> Encoded:
        """The numbers of new rows."""

    def absent(self, values: Series) -> NDArray[np.bool_]:
        """Which rows are treated as missing: (N)."""
        return np.asarray(texts(values).isna())


@dataclass(frozen=True)
class Dropped(Kind):
    """A column that is not used, and why."""

    reason: str
    kind = "dropped"

    @property
    def features(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def said(self) -> str:
        """The reason."""
        return self.reason

    def encode(self, values: Series) -> Encoded:
        """Nothing."""
        return Encoded(np.empty((len(values), 0)), "")


@dataclass(frozen=True)
class Measured(Kind):
    """A number: itself, the median if it is missing, and an indicator if training rows had missing values."""

    median: float
    missing: bool

    @classmethod
    def learn(cls, name: str, values: Series, **style: str) -> Self:
        """Median and missing values of the training rows, which are written in the given style."""
        found = cls(name, 0.0, False, **style).read(values)
        return cls(name, float(np.nanmedian(found)), bool(np.isnan(found).any()), **style)

    @abstractmethod
    def read(self, values: Series) -> Array:
        """The numbers, with NaN for all that is none, also for infinity."""

    def absent(self, values: Series) -> NDArray[np.bool_]:
        """Which rows have no number: (N)."""
        return np.isnan(self.read(values))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what a value becomes, without the mark for a missing one."""
        return (self.name,)

    def spread(self, found: Array) -> Sequence[Array]:
        """What a value becomes: one array for each of ``parts``."""
        return [found]

    @property
    def features(self) -> tuple[str, ...]:
        """Its parts, and the mark."""
        return (*self.parts, f"{self.name} is missing") if self.missing else self.parts

    @property
    def written(self) -> str:
        """The format of values, if it needs a note."""
        return ""

    @property
    def used(self) -> str:
        """What is done with values that are there."""
        return ""

    @property
    def said(self) -> str:
        """How it is read and used, and what happens to missing values."""
        missing = f"missing: {self.shown_median} and a column that marks them" if self.missing else ""
        return "; ".join(part for part in (self.written, self.used, missing) if part) or "as it is"

    @property
    def shown_median(self) -> str:
        """The median as people write it."""
        return f"median {self.median:.6g}"

    def encode(self, values: Series) -> Encoded:
        """Parts of the value or of the median, and the mark."""
        found = self.read(values)
        absent = np.isnan(found)
        columns = [*self.spread(np.where(absent, self.median, found))]
        if self.missing:
            columns.append(absent.astype(np.float64))
        return Encoded(np.column_stack(columns), self._note(values, absent))

    def _note(self, values: Series, absent: NDArray[np.bool_]) -> str:
        strange = texts(values[absent]).dropna()
        if len(strange):
            return f"{len(strange)} not a {self.kind}, such as {strange.iloc[0][:40]!r}: treated as missing"
        if absent.any() and not self.missing:
            return f"{int(absent.sum())} missing: {self.shown_median}"
        return ""


@dataclass(frozen=True)
class Number(Measured):
    """A number, written in the style of its column: see ``whvi_tables.styles``."""

    form: str = PLAIN
    unit: str = ""
    doubt: str = ""
    kind = "number"

    @property
    def style(self) -> Style:
        """How it is written."""
        return Style(self.form, self.unit, self.doubt)

    @property
    def written(self) -> str:
        """How it is written."""
        return self.style.said

    def read(self, values: Series) -> Array:
        """The numbers."""
        return self.style.read(values)


@dataclass(frozen=True)
class Boolean(Measured):
    """True or false: 1 or 0, with missing values as those of numbers."""

    kind = "boolean"

    def read(self, values: Series) -> Array:
        """1, 0, or NaN."""
        return np.asarray(texts(values).str.lower().map(TRUTH), np.float64)


@dataclass(frozen=True)
class Date(Measured):
    """A date: years since 1970, and its place in the year and in the week, each as a point on a circle."""

    form: str = ISO
    doubt: str = ""
    kind = "date"

    @property
    def written(self) -> str:
        """How it is written."""
        return DateStyle(self.form, self.doubt).said

    @property
    def used(self) -> str:
        """What becomes of it."""
        return "years, position in the year and in the week"

    def read(self, values: Series) -> Array:
        """Days since 1970-01-01, or NaN."""
        return DateStyle(self.form).read(values)

    @property
    def parts(self) -> tuple[str, ...]:
        """Years, and two circles."""
        circles = [f"{wave} of {period}" for period in ("year", "week") for wave in ("sine", "cosine")]
        return tuple(f"{self.name}: {part}" for part in ("years", *circles))

    def spread(self, found: Array) -> Sequence[Array]:
        """Years, and two circles."""
        turns = [2 * np.pi * found / period for period in (365.25, 7.0)]
        return [found / 365.25, *(wave(turn) for turn in turns for wave in (np.sin, np.cos))]

    @property
    def shown_median(self) -> str:
        """The median as a date."""
        return f"median {np.datetime64(int(np.floor(self.median)), 'D')}"


@dataclass(frozen=True)
class Category(Kind):
    """One of a few texts: 1 in the place of its own, and 0 elsewhere; nothing but 0 for one that was never seen."""

    categories: tuple[str, ...]
    kind = "category"

    @classmethod
    def learn(cls, name: str, values: Series) -> "Category":
        """The categories of the training rows, in order; missing values are one of their own."""
        return cls(name, tuple(sorted(texts(values).fillna(MISSING).unique())))

    @property
    def features(self) -> tuple[str, ...]:
        """One for each category."""
        return tuple(f"{self.name} = {category}" for category in self.categories)

    @property
    def said(self) -> str:
        """The categories, if they are few."""
        listed = ", ".join(self.categories[:6])
        return f"one-hot of {len(self.categories)}: {listed}{', ...' if len(self.categories) > 6 else ''}"

    def encode(self, values: Series) -> Encoded:
        """One-hot rows."""
        found = texts(values).fillna(MISSING).to_numpy(object)
        hot = found[:, None] == np.array(self.categories, dtype=object)
        strange = found[~hot.any(1)]
        names = ", ".join(repr(name[:40]) for name in sorted(set(strange))[:3])
        note = f"{len(strange)} not seen in training, such as {names}: all zeros" if len(strange) else ""
        return Encoded(hot.astype(np.float64), note)
