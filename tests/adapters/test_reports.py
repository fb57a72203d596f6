"""The texts of both reports on modules: what adapters did, and what a conversion did."""

from typing import Any

import pytest

from whvi.adapters import report as adapters
from whvi.convert import report as convert

KINDS: dict[str, Any] = {
    "adapters": (adapters, {"base": 1234, "delta": 12}, {"base": 9, "delta": 0}, "1,234     12"),
    "convert": (
        convert,
        {"before": 1234, "after": 12, "replaced": True},
        {"before": 9, "after": 9},
        "1,234 -> 12      -",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_text_has_each_row_in_its_place(kind: str) -> None:
    module, done, left, cells = KINDS[kind]
    rows: Any = [
        module.Row("a", "Linear", (3, 4), **done, note="shares with b"),
        module.Row("", "Special", (), **left, note="reads its weights"),
    ]
    header, first, *notes, last = str(module.Report(tuple(rows), 1300, 20, "batch", "example")).splitlines()
    assert header.startswith("name  kind    shape")
    assert first.startswith("a     Linear  3 x 4")
    assert first.endswith(cells)
    assert notes[0] == "a: shares with b"
    assert notes[2:] == [
        "  (model) (Special): reads its weights",
        'Linear layers draw once for each call (draws="batch").',
        'Convolutions draw once for each example (draws="example").',
    ]
    assert last.startswith("1 ")


@pytest.mark.parametrize("kind", KINDS)
def test_text_without_rows_is_one_line(kind: str) -> None:
    assert len(str(KINDS[kind][0].Report((), 10, 10)).splitlines()) == 1
