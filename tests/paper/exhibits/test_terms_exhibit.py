"""The exhibit of sums of terms: whose records it shows, and what it counts."""

from typing import Any

import pytest

from whvi_paper.blocks import Table
from whvi_paper.exhibits import classification, terms, uci_regression
from whvi_paper.store import Record, name_of


def record(method: str, dataset: str, error: float, mnll: float, parameters: int) -> Record:
    task = "regression" if dataset in terms.SHARED[uci_regression.NAME][0] else "classification"
    inputs: dict[str, Any] = {"task": task, "dataset": dataset, "method": method, "depth": 2, "width": 128}
    first, third = ("rmse", "coverage_90") if task == "regression" else ("error", "ece")
    return {
        "name": name_of(inputs),
        "inputs": inputs,
        "results": {"metrics": {first: error, "mnll": mnll, third: 0.9}, "parameters": parameters},
        "cpu_seconds": 60.0,
        "failures": 0,
    }


def texts(table: Any) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_records_of_other_exhibits_are_not_computed_again() -> None:
    names = {job.exhibit: set[str]() for job in terms.jobs("recipe")}
    for job in terms.jobs("recipe"):
        names[job.exhibit] |= {name_of(inputs) for inputs in job.inputs}
    assert set(names) == {terms.NAME, uci_regression.NAME, classification.NAME}
    for module in (uci_regression, classification):
        theirs = {name_of(inputs) for job in module.jobs("recipe") for inputs in job.inputs}
        assert names[module.NAME] <= theirs
        assert not names[terms.NAME] & theirs  # nor is anything computed twice
    assert sum(map(len, names.values())) == 12 * len(terms.METHODS) * 8


def test_dropout_takes_as_many_steps_as_whvi() -> None:
    steps = {job.inputs[0]["method"]: job.inputs[0]["steps"] for job in terms.jobs("recipe")}
    assert {method for method, count in steps.items() if count == 50_500} == set(terms.METHODS) - {"mfg"}


def test_the_count_is_that_of_numbers_that_both_have() -> None:
    ours = [record("whvi-t4", "yacht", 0.5, 1.0, 40), record("whvi-t4", "letter", 0.02, 0.1, 50)]
    rivals = [record("mcd", "yacht", 0.5, 0.9, 160), record("mcd", "letter", 0.03, 0.2, 100)]
    alone = record("whvi-t4", "boston", 3.0, 2.5, 40), record("whvi", "yacht", 0.7, 1.4, 15)
    shown = terms.show([*ours, *alone, *rivals])
    assert "ahead of MCD in 1 of 2 numbers of regression and 2 of 2 numbers of classification" in shown.text
    assert shown.text.endswith("with 25% to 50% of its parameters.")
    assert "no dataset in common yet" in terms.show([*ours, *alone]).text


def test_a_table_for_each_metric_has_a_column_for_each_method() -> None:
    shown = terms.show([record("whvi", "yacht", 0.7, 1.4, 1541), record("mcd", "letter", 0.03, 0.2, 22042)])
    error, mnll, coverage, ece, parameters, time = shown.blocks
    dash = "–"
    assert texts(error) == [["yacht", "0.70", *[dash] * 7], ["letter", *[dash] * 7, "0.030"]]
    assert texts(mnll)[0][1] == "1.40"
    assert (texts(coverage), texts(ece)) == ([["yacht", "0.90", *[dash] * 7]], [["letter", *[dash] * 7, "0.90"]])
    assert texts(parameters)[0][1] == "1,541"
    assert texts(time)[1][-1] == "1 min 0 s"
    assert [table.head[1] for table in shown.blocks if isinstance(table, Table)] == ["WHVI T = 1"] * 6


@pytest.mark.parametrize("profile", ["quick", "smoke"])
def test_shorter_profiles_have_all_methods(profile: str) -> None:
    assert {job.inputs[0]["method"] for job in terms.jobs(profile)} == set(terms.METHODS)
