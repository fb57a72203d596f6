"""Exhibits of time and memory say what their records say."""

from pathlib import Path
from typing import Any

import pytest
import torch

from whvi.page import check_svg
from whvi_paper.blocks import Figure, Table
from whvi_paper.data import Split
from whvi_paper.exhibits import complexity, inference_time, transform_time
from whvi_paper.report.judging import Verdict, fastest_prediction
from whvi_paper.store import name_of

MACHINE = {"processor": "a processor", "isa": "avx2", "backend": "native", "torch": "2.10", "cores": 1}


@pytest.fixture(autouse=True)
def _no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take time, and are drawn in another test."""
    for module in (complexity, inference_time, transform_time):
        monkeypatch.setattr(module, "draw", lambda *_: "")


def record(inputs: dict[str, Any], **metrics: dict[str, float]) -> dict[str, Any]:
    return {"name": name_of(inputs), "inputs": inputs, "results": {"metrics": {**metrics, "machine": MACHINE}}}


def texts(table: object) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_exponents_are_those_of_the_records() -> None:
    powers = {"mfg": 2.0, "nng": 3.0, "tensor": 1.2, "whvi": 1.0}
    records = [
        record(
            {"size": size, "batch": 64},
            numbers=dict.fromkeys(powers, size**2),
            bytes={name: 4e6 * size**power for name, power in powers.items()},
            seconds={name: 1e-6 * size ** (power + 0.5) for name, power in powers.items()},
        )
        for size in (64, 128, 256)
    ]
    shown = complexity.show(records)
    _, exponents, values = shown.blocks
    assert texts(exponents)[0] == ["mean field", "O(D²)", "2.00", "2.00", "O(D²)", "2.50"]
    assert [row[3] for row in texts(exponents)] == ["2.00", "3.00", "1.20", "1.00"]
    assert [row[5] for row in texts(exponents)] == ["2.50", "3.50", "1.70", "1.50"]
    assert texts(values)[-1] == ["WHVI", "65,536", "1,024.00", "4.10"]
    assert "a processor" in shown.text


def test_numbers_and_bytes_of_layers(tmp_path: Path) -> None:
    size, shares = 32, []
    inputs = {"batch": 2, "size": size, "methods": list(complexity.PAPER), "rounds": 1}
    (results,) = complexity.measure([inputs], tmp_path, shares.append)
    numbers, held = results["metrics"]["numbers"], results["metrics"]["bytes"]
    assert numbers["whvi"] == 6 * size  # S1, S2; mean and deviation of g and of the bias
    assert numbers["mfg"] == 2 * size * (size + 1)
    assert numbers["nng"] == size * (size + 1) + 2 * (size**2 + (size + 1) ** 2)  # mean; roots and moments
    for name in complexity.PAPER:
        assert held[name] > 4 * numbers[name]
    assert held["mfg"] >= 2 * 4 * numbers["mfg"]  # gradients are as large as parameters


def test_times_of_predictions_are_compared_at_the_largest_width() -> None:
    records = [
        record({"width": width, "rows": 128}, seconds={"whvi": 1e-3, "mfg": 1e-3 * factor, "nng": 0.5})
        for width, factor in ((256, 7.5), (64, 2.0))
    ]
    shown = inference_time.show(records)
    assert "at width 256, relative to WHVI: mean field 7.5, matrix Gaussian 500.0." in shown.text
    assert texts(shown.blocks[1]) == [["64", "1", "2", "500"], ["256", "1", "7.5", "500"]]


@pytest.mark.parametrize("method", inference_time.METHODS)
def test_prediction_is_of_all_rows(method: str) -> None:
    variance = inference_time.prediction(method, torch.randn(5, 3), {"depth": 2, "width": 8, "samples": 2})()
    assert isinstance(variance, torch.Tensor)
    assert variance.shape == (5, 1)


def test_predictions_of_test_sets_are_repeated_and_boxed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = inference_time.jobs("recipe")
    assert [job.inputs[0].get("dataset") for job in jobs] == [None, *inference_time.DATASETS]
    assert {one["repetitions"] for job in jobs[1:] for one in job.inputs} == {100}
    rows = Split((torch.randn(9, 2), torch.randn(9, 1)), (torch.randn(5, 2), torch.randn(5, 1)))
    monkeypatch.setattr(inference_time, "load", lambda name: name)
    monkeypatch.setattr(inference_time, "split", lambda data, index: rows)
    inputs = {"dataset": "boston", "width": 4, "depth": 1, "samples": 2, "batch": 3, "repetitions": 2}
    inputs["methods"] = ["whvi", "nng"]
    (results,) = inference_time.measure_sets([inputs], tmp_path, lambda share: None)
    assert results["rows"] == 5
    assert {name: len(times) for name, times in results["times"].items()} == {"whvi": 2, "nng": 2}
    shown = inference_time.show([{"name": "a", "inputs": inputs, "results": results}])
    (figure,) = shown.blocks
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    assert "repeated 2 times" in shown.text
    assert {entry.dataset for entry in shown.entries} == {"test set of boston"}


@pytest.mark.parametrize(("nng", "verdict"), [(9.0, Verdict.REPRODUCED), (1.5, Verdict.CONTRADICTED)])
def test_the_fastest_is_judged_on_all_data(nng: float, verdict: Verdict) -> None:
    records = [
        record({"width": width, "rows": 128}, seconds={"whvi": 1.0, "mfg": 2.0, "nng": at_width})
        for width, at_width in ((512, 9.0), (64, 0.5))
    ]
    sets = {"width": 512, "dataset": "boston", "batch": 128, "repetitions": 2}
    seconds = {"whvi": 1.0, "mfg": 2.0, "nng": nng}
    one = record(sets, seconds=seconds)
    one["results"] |= {"rows": 51, "times": {name: [value] * 2 for name, value in seconds.items()}}
    assert fastest_prediction(inference_time.show([*records, one]).entries)[0] == verdict


def test_single_calls_of_transform_and_product_are_boxed(tmp_path: Path) -> None:
    inputs = [{"batch": 512, "size": 2, "repetitions": 3}, {"batch": 1, "size": 512, "repetitions": 3}]
    results = transform_time.measure_calls(inputs, tmp_path, lambda share: None)
    for one in results:
        assert set(one["boxes"]) == {"whvi", "matmul"}
        for box in one["boxes"].values():
            assert sorted(box, key=lambda name: box[name]) == ["whislo", "q1", "med", "q3", "whishi"]
    shown = transform_time.show(
        [{"name": "a", "inputs": i, "results": r} for i, r in zip(inputs, results, strict=True)]
    )
    assert "3 single calls" in shown.text
    assert {(entry.dataset, entry.width) for entry in shown.entries} == {
        ("batch 512, single calls", 2), ("batch 1, single calls", 512),
    }  # fmt: skip


def test_break_even_is_read_from_the_records_of_one_batch() -> None:
    times = {2: (2.0, 1.0), 4: (1.0, 2.0), 8: (3.0, 2.0), 16: (4.0, 8.0), 32: (5.0, 20.0)}
    records = [
        record({"batch": 512, "size": size}, seconds={"whvi": a * 1e-6, "matmul": b * 1e-6})
        for size, (a, b) in times.items()
    ]
    records.append(record({"batch": 1, "size": 512}, seconds={"whvi": 1.0, "matmul": 0.5}))
    shown = transform_time.show(records)
    assert "faster from D = 16 on" in shown.text
    assert texts(shown.blocks[1])[-1] == ["32", "5.0", "20.0", "4.00"]
    assert texts(shown.blocks[2]) == [["1", "1000000.0", "500000.0", "0.50"]]
    assert transform_time.break_even({"whvi": [(4, 2.0)], "matmul": [(4, 1.0)]}) is None
