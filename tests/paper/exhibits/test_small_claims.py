"""Exhibits behind single claims: the variance of gradients, and priors of g."""

import pytest
import torch

from whvi.likelihoods import Gaussian
from whvi.nn import BayesianLayer
from whvi_paper.blocks import Table
from whvi_paper.exhibits import gradient_variance, priors, uci_regression
from whvi_paper.networks import network
from whvi_paper.report import judging
from whvi_paper.store import Record, name_of


def test_copies_draw_in_their_own_way() -> None:
    model = network("whvi", 3, 1, 1, 8)
    twin = gradient_variance.with_draws(model, "batch")
    ways = [[layer.draws for layer in one.modules() if isinstance(layer, BayesianLayer)] for one in (model, twin)]
    assert ways == [["example"] * 2, ["batch"] * 2]


@pytest.mark.parametrize("mean", [2.0, 0.5])
def test_ratios_and_verdict_are_those_of_the_records(mean: float) -> None:
    inputs = {"dataset": "yacht", "depth": 2, "width": 128, "steps": 7, "draws": 3}
    metrics = {"start, mean": {"example": 1.0, "batch": mean}, "start, log_std": {"example": 2.0, "batch": 9.0}}
    record: Record = {"name": name_of(inputs), "inputs": inputs, "results": {"metrics": metrics}}
    shown = gradient_variance.show([record])
    (table,) = shown.blocks
    assert isinstance(table, Table)
    assert [row[-1].text for row in table.rows] == [f"{mean:.1f}", "4.5"]
    verdict, told = judging.smaller_variance(shown.numbers)
    assert verdict == (judging.Verdict.REPRODUCED if mean > 1 else judging.Verdict.NOT_REPRODUCED)
    assert told == f"it is {min(mean, 4.5):.1f} to 4.5 times smaller, in 2 cases"
    assert judging.smaller_variance([])[0] == judging.Verdict.OPEN


def test_gradients_are_those_of_q_of_g() -> None:
    model = network("whvi", 3, 1, 1, 8)
    found = gradient_variance.gradient(model, Gaussian(), torch.randn(4, 3), torch.randn(4, 1), 4)
    assert {part: len(vector) for part, vector in found.items()} == {"mean": 4, "log_std": 4}  # one g for two blocks


def test_priors_differ_in_nothing_else() -> None:
    jobs = priors.jobs("recipe")
    table = {name_of(one) for job in uci_regression.jobs("recipe") for one in job.inputs}
    first = {job.inputs[0]["method"]: job.inputs[0] for job in jobs if job.inputs[0]["dataset"] == "yacht"}
    assert list(first) == list(priors.METHODS)
    assert name_of(first["whvi"]) in table
    assert all({**one, "method": ""} == {**first["whvi"], "method": ""} for one in first.values())
    assert {job.exhibit for job in jobs if job.inputs[0]["method"] != "whvi"} == {priors.NAME}


def test_a_prior_that_wins_most_is_an_improvement() -> None:
    def entries(mine: float) -> list[Record]:
        return [
            {
                "name": name_of(one),
                "inputs": one,
                "results": {"metrics": dict.fromkeys(priors.METRICS, value), "parameters": 7},
                "cpu_seconds": 1.0,
                "failures": 0,
            }
            for job in priors.jobs("recipe")
            for one in job.inputs[:1]
            for value in [mine if one["method"] == "whvi-constant" else 1.0]
        ]

    judge = judging.no_improvement("whvi-constant")
    assert judge(priors.show(entries(2.0)).numbers)[0] == judging.Verdict.REPRODUCED
    assert judge(priors.show(entries(0.5)).numbers) == (
        judging.Verdict.NOT_REPRODUCED,
        "it is better in 4 of 4 by RMSE, 4 of 4 by MNLL",
    )
    assert judge([])[0] == judging.Verdict.OPEN
