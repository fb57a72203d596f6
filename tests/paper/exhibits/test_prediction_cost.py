"""The cost of a prediction: what is measured is what is said."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from whvi_paper.blocks import Table
from whvi_paper.exhibits import prediction_cost
from whvi_paper.images import prediction
from whvi_paper.images.prediction import LINEAR, TEST, WHOLE
from whvi_paper.store import name_of

MACHINE = {"processor": "a processor", "isa": "avx2", "backend": "native", "torch": "2.10", "cores": 1}


@pytest.fixture(autouse=True)
def _no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_cost, "draw", lambda *_: "")


def record(part: str, seconds: dict[str, float], **metrics: dict[str, float]) -> dict[str, Any]:
    common = {
        "machine": MACHINE,
        "numbers": dict.fromkeys(seconds, 1234),
        "cpu_seconds": {k: v / 2 for k, v in seconds.items()},
    }
    found = {"bytes": {}, "joules": {}, **common, "seconds": seconds, **metrics}
    plan = prediction_cost.TEST_PLAN if part == TEST else prediction_cost.PLANS["recipe"]
    inputs = {"part": part, **plan}
    return {"name": name_of(inputs), "inputs": inputs, "results": {"metrics": found}}


RECORDS = [
    record(LINEAR, {"whvi": 1.0, "mcd": 4.0, "nng": 50.0}),
    record(WHOLE, {"whvi": 2.0, "mcd": 5.0, "nng": 60.0}, bytes={"whvi": 2e7, "mcd": 1e8, "nng": 5e9}),
]


def test_ratios_are_those_of_the_records() -> None:
    shown = prediction_cost.show(RECORDS)
    assert "is 2.50 for the network (2.50 in CPU seconds), 4.00 for the linear maps (4.00 in" in shown.text
    assert "and has 256; turns: 3." in shown.text
    assert "a pass of 16 images holds" in shown.text
    table = shown.blocks[1]
    assert isinstance(table, Table)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["network, MC dropout"] == ["1,234", "256", "16", "5", "2.50", "2.5", "100", "not exposed here"]
    assert rows["linear maps, matrix Gaussian"] == ["1,234", "256", "256", "50", "50.00", "25", "–", "not exposed here"]


def test_the_test_set_stands_beside_the_few_images() -> None:
    whole = record(TEST, {"whvi": 80.0, "mcd": 120.0})
    shown = prediction_cost.show([*RECORDS, whole])
    assert "256 random images" in shown.text
    assert "should carry over; one turn with as many stands beside them." in shown.text
    assert "1.50 for the test set (1.50 in CPU seconds)" in shown.text
    table = shown.blocks[1]
    assert isinstance(table, Table)
    row = [cell.text for cell in table.rows[-1]]
    assert row[:6] == ["test set, MC dropout", "1,234", "10,000", "16", "120", "1.50"]
    assert "should carry over." in prediction_cost.show(RECORDS).text


def test_the_test_set_is_a_job_by_itself() -> None:
    parts = {
        profile: [[one["part"] for one in job.inputs] for job in prediction_cost.jobs(profile)]
        for profile in prediction_cost.PLANS
    }
    assert parts == {"recipe": [[WHOLE, LINEAR], [TEST]], "quick": [[WHOLE, LINEAR]], "smoke": [[WHOLE, LINEAR]]}


@pytest.mark.parametrize("part", [WHOLE, LINEAR])
def test_methods_warm_up_and_have_equal_passes_for_memory(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    timed: list[int] = []

    def predicted(model: nn.Module, x: torch.Tensor, samples: int, rows: int) -> Any:
        return lambda: asked.append((len(x), rows))

    def in_turn(calls: dict[str, Any], rounds: dict[str, int]) -> dict[str, Any]:
        timed.append(len(asked))
        for run in calls.values():
            run()
        return {}

    monkeypatch.setattr(prediction, "prediction", predicted)
    monkeypatch.setattr(prediction, "in_turn", in_turn)
    monkeypatch.setattr("whvi_paper.cost.peak", lambda run, _: run() or 0)
    plan = {"model": "simple-cnn", "images": 4, "samples": 2, "memory_rows": 2, "rows": {"whvi": 1, "mcd": 4}}
    prediction.measure([{"part": part, **plan, "rounds": {"whvi": 1, "mcd": 1}}], tmp_path, lambda _: None)
    assert set(asked[: timed[0]]) == {(2, 2)}
    assert timed[0] >= 2  # each method was called before any was timed
    assert asked[timed[0] :] == [(4, 1), (4, 4)]


def test_energy_is_told_only_where_it_was_measured() -> None:
    assert "not exposed" in prediction_cost.show(RECORDS).text
    measured = record(
        WHOLE, {"whvi": 2.0, "mcd": 5.0}, bytes={"whvi": 1e6, "mcd": 1e6}, joules={"whvi": 10.0, "mcd": 17.0}
    )
    text = prediction_cost.show([measured]).text
    assert "not exposed" not in text
    assert "MC dropout takes 1.70 times that of WHVI" in text
    assert "up to 33 %" in text


@pytest.mark.parametrize("method", ["whvi", "mcd"])
def test_linear_maps_are_what_the_network_ends_with(method: str) -> None:
    """The whole network has the same convolutions under both, and the parts have the sizes of the paper's."""
    one = {"model": "alexnet", "images": 1}
    whole, images = prediction.part_of({**one, "part": WHOLE}, method)
    linear, features = prediction.part_of({**one, "part": LINEAR}, method)
    assert (images.shape, features.shape) == ((1, 3, 32, 32), (1, 1024))
    count = [sum(p.numel() for p in part.parameters()) for part in (whole, linear)]
    sizes = pairwise((3, 64, 192, 384, 256, 256))
    assert count[0] - count[1] == sum((9 * inputs + 1) * outputs for inputs, outputs in sizes)  # filters and biases
    assert not any(isinstance(layer, nn.Flatten | nn.MaxPool2d) for layer in linear.modules())
    probabilities = prediction.prediction(linear, features, 2, 1)()
    assert isinstance(probabilities, torch.Tensor)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(1))
