"""Exhibits that are grids of networks, in miniature and from end to end: jobs, records, what is shown."""

from pathlib import Path

import pytest

from whvi_paper.exhibits import find, show
from whvi_paper.report import markdown
from whvi_paper.runner import run
from whvi_paper.store import Store


@pytest.mark.parametrize("name", ["uci-regression", "uci-shallow", "yacht-width", "classification", "tensor", "terms"])
def test_a_smoke_run_can_be_shown(name: str, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHVI_DATA", str(data_dir))
    jobs = find(name).jobs("smoke")
    summary = run(jobs[:4], Store(tmp_path), work=tmp_path / "work", backend="sequential")
    assert (summary.done, summary.failed) == (sum(len(job.inputs) for job in jobs[:4]), 0)
    shown = show(name, Store(tmp_path), "smoke")
    assert shown.missing == sum(len(job.inputs) for job in jobs[4:])
    assert "Profile smoke" in shown.text
    assert {entry.n for entry in shown.entries if entry.records} == {2}
    assert shown.title in markdown([shown], tmp_path / "figures")


@pytest.mark.parametrize("name", ["uci-regression", "uci-widths", "uci-shallow", "classification", "structures"])
def test_a_job_has_one_dataset_method_and_shape(name: str) -> None:
    jobs = find(name).jobs("recipe")
    assert len({job.label for job in jobs}) == len(jobs)
    for job in jobs:
        assert len({(one["dataset"], one["method"], one["depth"], one["width"]) for one in job.inputs}) == 1
        assert [one["split"] for one in job.inputs] == list(range(8))
