"""From the columns of a table to the matrix of an estimator: the kind and encoding of each column."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame, Series
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from whvi.errors import ArgumentError
from whvi_tables import dates, styles
from whvi_tables.dates import learn_date_style
from whvi_tables.fields import TRUTH, Array, numbers, texts
from whvi_tables.kinds import Boolean, Category, Date, Dropped, Kind, Number
from whvi_tables.reading import Table
from whvi_tables.styles import PLAIN, learn_style

MOST_CATEGORIES = 50
"""A text with more values than this is a name or a note, not a category."""
_VALUES: dict[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    float: lambda value: isinstance(value, float) and isfinite(value),
    tuple[str, ...]: lambda value: isinstance(value, tuple) and all(isinstance(part, str) for part in value),
}
"""By the type of a field, whether a value is one."""
_FORMS: dict[Any, Collection[str]] = {Number: styles.FORMS, Date: dates.FORMS}
_KINDS = {kind.kind: kind for kind in (Number, Boolean, Date, Category, Dropped)}


class Matrix(NamedTuple):
    """The input of an estimator."""

    values: Array
    """(N, features), finite."""
    notes: dict[str, str]
    """Notes about unusual values, by name of column."""


@dataclass(frozen=True)
class Columns:
    """The learned encoding of the columns of a table.

    Law: matrix(frame).values is a function of the row, the same for any other rows around it.

    >>> frame = DataFrame({"size": [1.0, 2.0, None, 3.0], "town": ["Ulm", "Bonn"] * 2, "country": "Germany"})
    >>> columns = Columns.learn(frame)
    >>> columns.features
    ('size', 'size is missing', 'town = Bonn', 'town = Ulm')
    >>> columns.matrix(frame).values.tolist()
    [[1.0, 0.0, 0.0, 1.0], [2.0, 0.0, 1.0, 0.0], [2.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 0.0]]
    """

    kinds: tuple[Kind, ...]

    @classmethod
    def learn(cls, frame: DataFrame, drop: Collection[str] = (), comma: bool = False) -> "Columns":
        """Learn from the training rows.

        Args:
            frame: the rows.
            drop: names of columns to drop.
            comma: read ``1,234`` as 1.234, and ``1/2/2024`` as a day of February, if a column is ambiguous.
        """
        wanted = {name: values for name, values in frame.items() if name not in drop}
        dropped = {name: Dropped(name, "dropped by --drop") for name in frame.columns if name in drop}
        kinds = tuple(dropped.get(name) or learn_kind(name, wanted[name], comma) for name in frame.columns)
        columns = cls(kinds)
        if not columns.features:
            reasons = "; ".join(f"{kind.name}: {kind.said}" for kind in kinds) or "there are no others"
            raise ArgumentError(f"no column is left to predict from ({reasons:.300}); add informative columns")
        return columns

    @property
    def used(self) -> tuple[Kind, ...]:
        """All but the dropped ones."""
        return tuple(kind for kind in self.kinds if not isinstance(kind, Dropped))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of the matrix."""
        return tuple(feature for kind in self.kinds for feature in kind.features)

    def matrix(self, frame: DataFrame) -> Matrix:
        """The matrix of new rows; unused columns may be missing, and other columns are ignored."""
        absent = [kind.name for kind in self.used if kind.name not in frame.columns]
        if absent:
            raise ArgumentError(
                f"the table has no column {', '.join(map(repr, absent))}, which the model needs; add it, empty if "
                "values are unknown"
            )
        encoded = {kind.name: kind.encode(frame[kind.name]) for kind in self.used}
        notes = {name: part.note for name, part in encoded.items() if part.note}
        return Matrix(np.column_stack([part.values for part in encoded.values()]), notes)

    def as_learned(self, table: Table) -> DataFrame:
        """The rows of a table; if it has decimal commas, numbers that were learned with points have these."""
        return table.with_points([kind.name for kind in self.used if isinstance(kind, Number) and kind.form == PLAIN])

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON holds it.

        Law: Columns.from_json(columns.to_json()) == columns, also after a way through JSON.
        """
        return [{"kind": kind.kind, **asdict(kind)} for kind in self.kinds]

    @classmethod
    def from_json(cls, found: Any) -> "Columns":
        """From what ``to_json`` gave; ArgumentError if it is something else."""
        try:
            return cls(tuple(_kind_from(entry) for entry in found))
        except (TypeError, KeyError, AttributeError) as error:
            raise ArgumentError(f"it does not describe columns ({error!r:.100})") from error


def learn_kind(name: str, values: Series, comma: bool = False) -> Kind:
    """The kind of a column, from its training rows; ``comma`` as for ``Columns.learn``."""
    present = texts(values).dropna()
    distinct = present.nunique()
    if distinct == 0:
        return Dropped(name, "no values")
    if distinct == 1 and len(present) == len(values):
        return Dropped(name, f"constant: always {present.iloc[0][:40]}")
    if is_bool_dtype(values) or set(present.str.lower()) <= TRUTH.keys():
        return Boolean.learn(name, values)
    if is_numeric_dtype(values) and np.isnan(numbers(values)).all():
        return Dropped(name, "no finite values")
    if style := learn_style(values, comma):
        counts = distinct == len(values) and _called_identifier(name)
        dropped = Dropped(name, "an identifier: different in each row")
        return dropped if counts else Number.learn(name, values, **style._asdict())
    if date_style := learn_date_style(values, comma):
        return Date.learn(name, values, **date_style._asdict())
    if distinct > MOST_CATEGORIES or 2 * distinct > len(present):
        return Dropped(name, f"{distinct:,} distinct texts in {len(present):,} rows, too many for categories")
    return Category.learn(name, values)


def _called_identifier(name: str) -> bool:
    """Whether a column of distinct numbers counts the rows, by its name.

    >>> [name for name in ("id", "ID", "customer_id", "Row", "unnamed_1", "width", "paid") if _called_identifier(name)]
    ['id', 'ID', 'customer_id', 'Row', 'unnamed_1']
    """
    low = name.lower().replace(" ", "_").replace("-", "_")
    return low in ("id", "index", "row", "key", "uuid") or low.endswith("_id") or low.startswith("unnamed")


def _kind_from(entry: Mapping[str, Any]) -> Kind:
    cls: Any = _KINDS[entry["kind"]]
    names = {field.name for field in fields(cls)}
    entry = {**{field.name: field.default for field in fields(cls) if field.default is not MISSING}, **entry}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    values.pop("kind")
    if values.keys() != names:
        raise KeyError(f"{cls.kind} has {', '.join(sorted(names))}")
    if not all(_VALUES[field.type](values[field.name]) for field in fields(cls)):
        raise TypeError(f"{cls.kind} {entry['name']!r:.60} has a value of the wrong type")
    if "form" in names and values["form"] not in _FORMS[cls]:
        raise KeyError(f"{cls.kind} {entry['name']!r:.60} has an unknown format")
    kind: Kind = cls(**values)
    return kind
