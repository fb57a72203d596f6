"""Grids of networks: their jobs, and the numbers that come of their records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whvi.errors import ArgumentError
from whvi_paper import grid, printed, recipe
from whvi_paper.data import DATASETS
from whvi_paper.store import Record, name_of

SHAPES = [(2, 64), (1, 50)]


def make(profile: str, **more: Any) -> list[grid.Job]:
    return grid.jobs("small", ["energy", "yacht"], ["whvi", "mcd"], SHAPES, profile, **more)


def records_of(job: grid.Job, values: Sequence[float]) -> list[Record]:
    return [
        {
            "name": name_of(inputs),
            "inputs": inputs,
            "results": {"metrics": {"mnll": value}, "parameters": 7},
            "cpu_seconds": 2.0,
            "failures": 1,
        }
        for inputs, value in zip(job.inputs, values, strict=False)
    ]


def test_one_job_for_each_dataset_method_and_shape() -> None:
    found = make("recipe")
    assert len({job.label for job in found}) == len(found) == 8
    assert found[0].label == "whvi energy 2x64"
    for job in found:
        assert [(one["split"], one["seed"]) for one in job.inputs] == [(index, index) for index in range(8)]
        steps = recipe.PLAIN.steps(job.inputs[0]["method"], 50_500)
        assert {(one["steps"], one["samples"]) for one in job.inputs} == {(steps, 64)}
        keys = ("method", "dataset", "depth", "width")
        assert len({tuple(one[key] for key in keys) for one in job.inputs}) == 1
    assert len({name_of(one) for job in found for one in job.inputs}) == 64


def test_profiles_differ_in_length_alone() -> None:
    whole, quick, smoke = (make(profile) for profile in ("recipe", "quick", "smoke"))
    assert [job.label for job in whole] == [job.label for job in quick]
    assert {job.inputs[0]["dataset"] for job in smoke} == {"yacht"}  # the smallest
    names = [{name_of(one) for job in jobs for one in job.inputs} for jobs in (whole, quick, smoke)]
    assert not names[0] & names[1]
    assert not names[1] & names[2]
    assert [max(one["steps"] for job in jobs for one in job.inputs) for jobs in (quick, smoke)] == [2000, 20]
    with pytest.raises(ArgumentError, match="'long' is unknown; use one of: recipe, paper, quick, smoke"):
        make("long")


def test_more_goes_into_the_inputs_and_steps_can_be_fewer() -> None:
    (inputs, *_) = make("recipe", most_steps=100, curve_every=5)[0].inputs
    assert (inputs["steps"], inputs["curve_every"]) == (100, 5)
    assert make("smoke", most_steps=100)[0].inputs[0]["steps"] == 20


def test_numbers_are_means_over_splits_beside_the_papers() -> None:
    job, values = make("recipe")[0], [2.0, 2.5, 4.0]
    (entry,) = grid.entries("small", records_of(job, values), printed.regression, ["mnll"], ["whvi"])
    assert (entry.dataset, entry.method, entry.depth, entry.width) == ("energy", "whvi", 2, 64)
    assert entry.mean == pytest.approx(np.mean(values))
    assert entry.std == pytest.approx(np.std(values, ddof=1))
    assert (entry.n, entry.cpu_seconds, entry.parameters, entry.failed) == (3, 6.0, 7, 3)
    assert (entry.paper_mean, entry.paper_std) == (2.18, 0.37)
    assert len(DATASETS["energy"].targets) == 2
    assert entry.paper_corrected == pytest.approx(2.18 + 2 * printed.MNLL_OFFSET)
    assert set(entry.records) == {name_of(one) for one in job.inputs[:3]}


def test_one_split_has_no_spread_and_no_number_of_the_paper_none_of_its() -> None:
    (entry,) = grid.entries("small", records_of(make("recipe")[0], [2.0]), lambda *_: None, ["mnll"], ["whvi"])
    assert (entry.mean, entry.n) == (2.0, 1)
    assert np.isnan(entry.std)
    assert (entry.paper_mean, entry.paper_std, entry.paper_corrected) == (None, None, None)
    assert grid.entries("small", [], printed.regression, ["mnll"], ["whvi"]) == []


def test_the_papers_numbers_of_methods_that_were_not_run_stand_beside_it() -> None:
    """So that the best in the paper does not depend on what was run here."""
    records = records_of(make("recipe")[0], [2.0, 2.5])
    found = grid.entries("small", records, printed.regression, ["mnll"], ["whvi", "nng", "sghmc"])
    assert [(entry.method, entry.n, entry.paper_mean) for entry in found] == [("whvi", 2, 2.18), ("nng", 0, 1.95)]


def test_the_papers_protocol_is_its_own_for_methods_that_have_one() -> None:
    found = grid.jobs("small", ["energy", "letter"], ["whvi", "mcd", "nng"], SHAPES, "paper", most_steps=10)
    assert {(job.exhibit, job.inputs[0]["method"]) for job in found} == {("protocol", "whvi"), ("protocol", "mcd")}
    for job in found:
        configuration = job.inputs[0]["configuration"]
        assert (job.inputs[0]["steps"], job.inputs[0]["samples"], len(job.inputs)) == (50_500, 64, 8)
        assert (configuration["learning_rate"], configuration["schedule"]) == (1e-3, "paper")
        assert (configuration["targets"], configuration["scaling"]) == ("raw", "standard")
        assert "kl_warm_up" not in configuration
        assert configuration.get("layers") == ("whvi-protocol" if job.inputs[0]["method"] == "whvi" else None)
