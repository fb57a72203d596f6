"""What holds for every exhibit that measures: its jobs give records, and its records are shown, all or some."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from whvi.errors import ArgumentError
from whvi.io import canonical
from whvi.page import check_svg
from whvi_paper.blocks import Figure, Table
from whvi_paper.exhibits import (
    approximation,
    complexity,
    covariance,
    inference_time,
    prediction_cost,
    process_cost,
    transform_time,
)
from whvi_paper.store import Record, name_of

MODULES = (approximation, complexity, covariance, inference_time, prediction_cost, process_cost, transform_time)
every = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)


def smoke(module: ModuleType, folder: Path) -> list[Record]:
    """The records of the smallest profile, as they would come from a file."""
    if module is process_cost:
        pytest.importorskip("gpytorch")
    records = []
    for job in module.jobs("smoke"):
        shares: list[float] = []
        for inputs, results in zip(job.inputs, job.function(job.inputs, folder, shares.append), strict=True):
            record = {"name": name_of(inputs), "inputs": inputs, "results": results}
            canonical.dump(record, name="record")  # only what a store takes
            records.append(json.loads(json.dumps(record)))
        assert shares == sorted(shares)
        assert not shares or shares[-1] == 1.0
    return records


@every
def test_smoke_records_are_shown(module: ModuleType, tmp_path: Path) -> None:
    records = smoke(module, tmp_path)
    shown = module.show(records)
    assert (shown.name, shown.title, shown.source) == (module.NAME, module.TITLE, module.SOURCE)
    figures = [block for block in shown.blocks if isinstance(block, Figure)]
    assert figures
    for figure in figures:
        check_svg(figure.svg)
        assert figure.alternative
    for table in (block for block in shown.blocks if isinstance(block, Table)):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.head)}
    assert len(records) == 1 or module.show(records[1:]).blocks


@every
@pytest.mark.parametrize("profile", ["recipe", "quick"])
def test_no_record_is_asked_for_twice(module: ModuleType, profile: str) -> None:
    jobs = module.jobs(profile)
    names = [name_of(inputs) for job in jobs for inputs in job.inputs]
    assert names
    assert len(set(names)) == len(names)
    assert {job.exhibit for job in jobs} == {module.NAME}


@every
def test_unknown_profile_is_refused(module: ModuleType) -> None:
    with pytest.raises(ArgumentError, match="paper, quick, smoke"):
        module.jobs("fast")
