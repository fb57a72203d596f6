"""The cost of a prediction: what is measured is what is said."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from whvi_paper import predicting
from whvi_paper.blocks import Table
from whvi_paper.exhibits import prediction_cost
from whvi_paper.predicting import LINEAR, WHOLE

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
    return {"inputs": {"part": part, **prediction_cost.PLANS["paper"]}, "results": {"metrics": found}}


RECORDS = [
    record(LINEAR, {"whvi": 1.0, "mcd": 4.0, "nng": 50.0}),
    record(WHOLE, {"whvi": 2.0, "mcd": 5.0, "nng": 60.0}, bytes={"whvi": 2e7, "mcd": 1e8, "nng": 5e9}),
]


def test_ratios_are_those_of_the_records() -> None:
    shown = prediction_cost.show(RECORDS)
    assert "is 2.50 for the network (2.50 in CPU seconds), 4.00 for the linear maps (4.00 in" in shown.text
    assert "fewer turns: 1." in shown.text
    table = shown.blocks[1]
    assert isinstance(table, Table)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["network, MC dropout"] == ["1,234", "5", "2.50", "2.5", "100", "not exposed here"]
    assert rows["linear maps, matrix Gaussian"] == ["1,234", "50", "50.00", "25", "–", "not exposed here"]


def test_energy_is_told_only_where_it_was_measured() -> None:
    assert "not exposed" in prediction_cost.show(RECORDS).text
    measured = record(
        WHOLE, {"whvi": 2.0, "mcd": 5.0}, bytes={"whvi": 1e6, "mcd": 1e6}, joules={"whvi": 10.0, "mcd": 17.0}
    )
    text = prediction_cost.show([measured]).text
    assert "not exposed" not in text
    assert "MC dropout takes 1.70 times that of WHVI" in text


@pytest.mark.parametrize("method", ["whvi", "mcd"])
def test_linear_maps_are_what_the_network_ends_with(method: str) -> None:
    """The whole network has the same convolutions under both, and the parts have the sizes of the paper's."""
    one = {"model": "alexnet", "images": 1, "samples": 2, "rows": {method: 1}}
    whole, images = predicting.part_of({**one, "part": WHOLE}, method)
    linear, features = predicting.part_of({**one, "part": LINEAR}, method)
    assert (images.shape, features.shape) == ((1, 3, 32, 32), (1, 1024))
    count = [sum(p.numel() for p in part.parameters()) for part in (whole, linear)]
    sizes = pairwise((3, 64, 192, 384, 256, 256))
    assert count[0] - count[1] == sum((9 * inputs + 1) * outputs for inputs, outputs in sizes)  # filters and biases
    assert not any(isinstance(layer, nn.Flatten | nn.MaxPool2d) for layer in linear.modules())
    probabilities = predicting.prediction(linear, features, one, method)()
    assert isinstance(probabilities, torch.Tensor)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(1))
