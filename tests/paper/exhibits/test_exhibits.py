"""All exhibits: what is seen of one that has no records yet."""

from pathlib import Path

import pytest

from whvi_paper.exhibits import EXHIBITS, show, show_all
from whvi_paper.store import Store


@pytest.mark.parametrize("name", EXHIBITS)
def test_without_records_there_is_nothing_to_see(name: str, tmp_path: Path) -> None:
    shown = show(name, Store(tmp_path))
    assert (shown.name, shown.title, shown.text) == (name, EXHIBITS[name].TITLE, "Not computed yet.")
    assert not shown.blocks
    assert shown.missing == sum(len(job.inputs) for job in EXHIBITS[name].jobs("recipe"))


def test_a_report_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    assert show_all(tmp_path) == []
