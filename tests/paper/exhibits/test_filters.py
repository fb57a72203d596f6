"""The comparison of filters: the same budget for all, and an answer that follows from the records."""

from pathlib import Path
from typing import Any

import pytest

from whvi.errors import ArgumentError
from whvi.page import check_svg
from whvi_paper.blocks import Figure, Table, Tone
from whvi_paper.exhibits import filters
from whvi_paper.images import filters as treatments
from whvi_paper.networks import convnet
from whvi_paper.report.standing import against_best
from whvi_paper.report.summary import summary_table
from whvi_paper.runner import run
from whvi_paper.store import Record, Store, name_of

WHVI, OWN, MORE, TERMS = treatments.OURS
LABELS = {name: one.label for name, one in treatments.TREATMENTS.items()}


def record(name: str, error: float, mnll: float, **inputs: Any) -> Record:
    method = treatments.TREATMENTS[name].method
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
"""An error higher than that of GOOD, by less than chance would explain in 10,000 images; an MNLL that is higher."""


@pytest.mark.parametrize("profile", ["recipe", "quick", "smoke"])
def test_all_treatments_have_the_same_budget(profile: str) -> None:
    inputs = [dict(one) for job in filters.jobs(profile) for one in job.inputs]
    methods = [one.pop("method") for one in inputs]
    assert treatments.TREATMENTS[treatments.BASELINE].method in methods
    assert len(set(methods)) == len(methods)
    for one in inputs:
        one["configuration"] = {key: value for key, value in one["configuration"].items() if key != "learning_rate"}
        assert one == inputs[0]


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ArgumentError, match="paper, quick, smoke"):
        filters.jobs("fast")


@pytest.mark.parametrize(
    ("found", "verdicts"),
    [
        ((BAD, BAD, BAD), "error: yes; MNLL: yes"),
        ((ALMOST, ALMOST, ALMOST), "error: no; MNLL: yes"),
        ((GOOD, GOOD, GOOD), "error: no; MNLL: no"),
        (((0.40, 0.85), GOOD, (0.40, 0.80)), f"error: in part ({LABELS[WHVI]} / {LABELS[MORE]}); MNLL: no"),
    ],
)
def test_error_and_density_are_judged_apart(found: tuple[tuple[float, float], ...], verdicts: str) -> None:
    runs = {treatments.BASELINE: record(treatments.BASELINE, *GOOD)}
    runs |= {name: record(name, *numbers) for name, numbers in zip((WHVI, OWN, MORE), found, strict=True)}
    text = treatments.answer(runs)
    assert f"degrades? Here, {verdicts}. One run each. The rule:" in text
    assert "two shares of 10,000 images" in text


@pytest.mark.parametrize(("numbers", "words"), [(BAD, "error worse, MNLL worse"), (ALMOST, "error no worse, MNLL wo")])
def test_low_rank_filters_are_compared_with_the_best_of_whvi(numbers: tuple[float, float], words: str) -> None:
    runs = {name: record(name, *BAD) for name in treatments.TREATMENTS}
    runs[OWN] = record(OWN, *GOOD)
    runs[treatments.LOW_RANK] = record(treatments.LOW_RANK, *numbers)
    assert f"beside {LABELS[OWN]}: {words}" in treatments.answer(runs)


def test_what_terms_save_is_a_share_of_the_gap() -> None:
    errors = {treatments.BASELINE: 0.30, WHVI: 0.40, TERMS: 0.32}
    runs = {name: record(name, error, 1.0) for name, error in errors.items()}
    assert "WHVI, T = 4 closes 80% of the gap in error." in treatments.answer(runs)
    del runs[TERMS]
    assert "closes" not in treatments.answer(runs)


def test_rule_of_each_metric() -> None:
    base = record(WHVI, 0.30, 0.85)
    spread = (2 * 0.3 * 0.7 / 10_000) ** 0.5  # of a difference of two shares near 0.3
    assert treatments.is_worse(record(OWN, 0.30 + 2.1 * spread, 0.85), base, "error")
    assert not treatments.is_worse(record(OWN, 0.30 + 1.9 * spread, 0.85), base, "error")
    assert treatments.is_worse(record(OWN, 0.30, 0.851), base, "mnll")
    assert not treatments.is_worse(record(OWN, 0.30, 0.8504), base, "mnll")
    assert not treatments.is_worse(base, record(OWN, *BAD), "mnll")


def test_numbers_stand_beside_the_papers() -> None:
    shown = filters.show([record(WHVI, 0.4268, 1.25), record(treatments.BASELINE, 0.30, 0.85), record(OWN, 0.4, 1.2)])
    figure, table = shown.blocks
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    assert (
        figure.caption
        == "From 2,000 test images of cifar10 and one function. Dotted: where the paper's treatments ended."
    )
    assert "(cifar10; 10,000 of them test)" in shown.text
    assert isinstance(table, Table)
    assert [row[0].text for row in table.rows] == [LABELS[name] for name in (treatments.BASELINE, WHVI, OWN)]
    error, mnll = table.rows[1][1:3]
    assert (error.text.splitlines(), error.tone) == (["0.427", "paper 0.427", "-0.000"], Tone.BETTER)
    assert (mnll.text.splitlines(), mnll.tone) == (["1.250", "paper 1.223", "+0.027"], Tone.WORSE)
    assert table.rows[2][1].text == "0.400"  # of which the paper has no number


def test_dropout_filters_do_not_count_as_whvi() -> None:
    shown = filters.show([record(treatments.BASELINE, 0.28, 0.88), record(WHVI, 0.40, 1.3), record(OWN, 0.40, 1.2)])
    row = [cell.text for cell in summary_table([shown]).rows[0]]
    assert [row[1], row[2], row[4], row[6]] == ["4 of 6", "1 ▲, 0 ●, 1 ▼", "2 ▲, 0 ●, 0 ▼", "0 of 2"]
    best = {entry.metric: (entry.mean, entry.paper_mean) for entry in against_best(shown.entries)}
    assert best == {"error": (0.40, 0.281), "mnll": (1.3, 0.882)}


def test_other_data_are_not_compared_with_the_papers() -> None:
    records = [record(name, *BAD, dataset="synthetic-images") for name in (treatments.BASELINE, WHVI)]
    shown = filters.show(records)
    assert all(entry.paper_mean is None for entry in shown.entries)
    assert "these images do not answer it" in shown.text
    assert "Here," not in shown.text
    figure = shown.blocks[0]
    assert isinstance(figure, Figure)
    assert figure.caption == "From 2,000 test images of synthetic-images and one function."
    assert "not trained yet" in filters.show(records[1:]).text


def test_text_has_the_count_of_alexnet() -> None:
    count = sum(p.numel() for p in convnet("alexnet", "whvi-filters").parameters())
    assert f"its structure has {count:,} here" in filters.TEXT


def test_smoke_runs_and_is_shown(tmp_path: Path) -> None:
    store, jobs = Store(tmp_path / "records"), filters.jobs("smoke")
    summary = run(jobs, store, work=tmp_path / "work", processes=1, backend="sequential")
    assert (summary.done, summary.failed) == (len(jobs), 0)
    shown = filters.show(store.records(jobs))
    assert "(synthetic-images; 40 of them test)" in shown.text
    figure = shown.blocks[0]
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    curves = [record["results"]["curve"] for record in store.records(jobs)]
    assert [[point[0] for point in curve] for curve in curves] == [[1.0]] * len(jobs)
