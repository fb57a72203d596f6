"""Rivals with as many steps as WHVI, beside what they have in the table."""

from whvi_paper.exhibits import rival_steps, uci_regression
from whvi_paper.jobs import Inputs
from whvi_paper.store import Record, name_of


def record(inputs: Inputs, value: float) -> Record:
    return {
        "name": name_of(inputs),
        "inputs": inputs,
        "results": {"metrics": {"rmse": value, "mnll": value}, "parameters": 7},
        "cpu_seconds": 1.0,
        "failures": 0,
    }


def test_jobs_are_those_of_the_table_and_the_same_with_all_steps() -> None:
    jobs = rival_steps.jobs("recipe")
    table = {name_of(one) for job in uci_regression.jobs("recipe") for one in job.inputs}
    shared = [one for job in jobs if job.exhibit == uci_regression.NAME for one in job.inputs]
    own = [one for job in jobs if job.exhibit == rival_steps.NAME for one in job.inputs]
    assert {name_of(one) for one in shared} <= table
    assert {one["steps"] for one in own} == {50_500}
    assert not {name_of(one) for one in own} & table
    assert [{**one, "steps": 0} for one in own] == [{**one, "steps": 0} for one in shared]


def test_more_steps_are_counted_where_both_were_run() -> None:
    jobs = [job for job in rival_steps.jobs("recipe") if job.label == "mcd yacht 2x128"]
    few, many = (job.inputs[0] for job in sorted(jobs, key=lambda job: job.inputs[0]["steps"]))
    assert "not computed yet" in rival_steps.show([record(few, 2.0)]).text
    shown = rival_steps.show([record(few, 2.0), record(many, 1.0)])
    assert "More steps are better for MCD in 2 of 2 numbers." in shown.text
    assert [entry.method for entry in shown.entries[::2]] == ["MCD, 20,200 steps", "MCD, 50,500 steps"]
