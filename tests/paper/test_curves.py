"""What is read off learning curves."""

from dataclasses import replace

import pytest

from whvi_paper.blocks import Entry
from whvi_paper.curves import EARLY, early
from whvi_paper.store import Record


def record(name: str, *values: float) -> Record:
    curve = [[100 * step, value] for step, value in enumerate(values, 1)]
    return {"name": name, "inputs": {"steps": 1000}, "results": {"curve": curve} if curve else {}}


def test_the_early_value_is_the_first_after_a_fifth_of_the_steps() -> None:
    entry = Entry("tensor", "whvi", "drive", "mlp", 2, 64, "mnll", 0.1, 0.0, 2, paper_mean=7.0, records=("a", "b"))
    records = [record("a", 9.0, 3.0, 1.0), record("b", 9.0, 5.0, 1.0), record("c")]
    (found,) = early([entry], records)
    assert (found.metric, found.mean, found.n, found.paper_mean) == (EARLY, 4.0, 2, None)
    assert found.std == pytest.approx(2**0.5)
    assert early([replace(entry, records=("c",), n=1)], records) == []
