"""The comparison of filters: the same budget for all, and an answer that follows from the records."""

import re
from pathlib import Path
from typing import Any

import pytest

from whvi.errors import ArgumentError
from whvi_paper.blocks import Figure, Table, Tone
from whvi_paper.exhibits import filters
from whvi_paper.report.svg import check_svg
from whvi_paper.runner import run
from whvi_paper.store import Record, Store, name_of

WHVI, OWN, MORE = filters.OURS


def record(method: str, error: float, mnll: float, **inputs: Any) -> Record:
    found = {"dataset": "cifar10", "method": method, "epochs": 8, "configuration": {"learning_rate": 0.01}, **inputs}
    return {
        "name": name_of(found),
        "inputs": found,
        "results": {
            "metrics": {"error": error, "mnll": mnll, "ece": 0.02},
            "reliability": [[0.5, 0.4, 4000], [0.9, 1.0, 6000]],
            "curve": [[1.0, 0.6, 1.6], [2.0, error, mnll]],
            "parameters": 20948,
        },
        "cpu_seconds": 600.0,
        "failures": 0,
    }


GOOD, BAD = (0.30, 0.85), (0.40, 1.10)
ALMOST = (0.305, 0.86)
"""Higher than GOOD, by less than chance would explain in 10,000 images."""


@pytest.mark.parametrize("profile", ["paper", "quick", "smoke"])
def test_all_treatments_have_the_same_budget(profile: str) -> None:
    inputs = [dict(one) for job in filters.jobs(profile) for one in job.inputs]
    methods = [one.pop("method") for one in inputs]
    assert filters.BASELINE in methods
    assert len(set(methods)) == len(methods)
    for one in inputs:
        one["configuration"] = {key: value for key, value in one["configuration"].items() if key != "learning_rate"}
        assert one == inputs[0]


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ArgumentError, match="paper, quick, smoke"):
        filters.jobs("fast")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [((BAD, BAD, BAD), "yes"), ((BAD, GOOD, BAD), "in part"), ((ALMOST, GOOD, ALMOST), "no")],
)
def test_answer_follows_from_the_records(found: tuple[tuple[float, float], ...], verdict: str) -> None:
    runs = {filters.BASELINE: record(filters.BASELINE, *GOOD)}
    runs |= {method: record(method, *numbers) for method, numbers in zip(filters.OURS, found, strict=True)}
    assert f"degrades? Here: {verdict}." in filters.answer(runs)
    if verdict == "in part":
        assert f"Worse are: {filters.LABELS[WHVI]}, {filters.LABELS[MORE]}." in filters.answer(runs)


@pytest.mark.parametrize(("numbers", "words"), [(BAD, "worse than WHVI, own"), (GOOD, "no worse than WHVI, own")])
def test_low_rank_filters_are_compared_with_the_best_of_whvi(numbers: tuple[float, float], words: str) -> None:
    runs = {method: record(method, *BAD) for method in filters.LABELS}
    runs[OWN] = record(OWN, *GOOD)
    runs[filters.LOW_RANK] = record(filters.LOW_RANK, *numbers)
    assert re.search(rf": {words}", filters.answer(runs))


def test_worse_takes_both_measures() -> None:
    base = record(WHVI, *GOOD)
    assert filters.is_worse(record(OWN, *BAD), base)
    assert not filters.is_worse(base, record(OWN, *BAD))
    assert not filters.is_worse(record(OWN, BAD[0], GOOD[1]), base)
    assert not filters.is_worse(record(OWN, GOOD[0], BAD[1]), base)


def test_numbers_stand_beside_the_papers() -> None:
    shown = filters.show([record(WHVI, 0.4268, 1.25), record(filters.BASELINE, 0.30, 0.85), record(OWN, 0.4, 1.2)])
    figure, table = shown.blocks
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    assert isinstance(table, Table)
    assert [row[0].text for row in table.rows] == [filters.LABELS[name] for name in (filters.BASELINE, WHVI, OWN)]
    error, mnll = table.rows[1][1:3]
    assert (error.text.splitlines(), error.tone) == (["0.427", "paper 0.427", "-0.000"], Tone.BETTER)
    assert (mnll.text.splitlines(), mnll.tone) == (["1.250", "paper 1.223", "+0.027"], Tone.WORSE)
    assert table.rows[2][1].text == "0.400"  # of which the paper has no number


def test_other_data_are_not_compared_with_the_papers() -> None:
    shown = filters.show([record(WHVI, 0.3, 1.0, dataset="synthetic-images")])
    assert all(entry.paper_mean is None for entry in shown.entries)
    assert "not trained yet" in shown.text


def test_without_records_there_is_nothing_to_see() -> None:
    assert not filters.show([]).blocks


def test_smoke_runs_and_is_shown(tmp_path: Path) -> None:
    store, jobs = Store(tmp_path / "records"), filters.jobs("smoke")
    summary = run(jobs, store, work=tmp_path / "work", processes=1, backend="sequential")
    assert (summary.done, summary.failed) == (len(jobs), 0)
    shown = filters.show(store.records(jobs))
    assert "degrades? Here:" in shown.text
    figure = shown.blocks[0]
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    curves = [record["results"]["curve"] for record in store.records(jobs)]
    assert [[point[0] for point in curve] for curve in curves] == [[1.0]] * len(jobs)
