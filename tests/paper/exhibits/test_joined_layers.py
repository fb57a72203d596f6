"""Layers that have something in common: what is computed, and what the records are said to show."""

from pathlib import Path
from typing import Any

import pytest

from whvi_paper.blocks import Figure, Table
from whvi_paper.exhibits import classification, joined_layers, uci_regression
from whvi_paper.networks import network
from whvi_paper.store import Record, name_of


def test_the_networks_of_the_tables_are_not_computed_again() -> None:
    jobs = joined_layers.jobs("recipe")
    tables = {
        name_of(one) for home in (uci_regression, classification) for job in home.jobs("recipe") for one in job.inputs
    }
    shared = [job for job in jobs if job.exhibit != joined_layers.NAME]
    assert {job.inputs[0]["method"] for job in shared} == {"whvi"}
    assert {name_of(one) for job in shared for one in job.inputs} <= tables
    own = [job for job in jobs if job.exhibit == joined_layers.NAME and "split" in job.inputs[0]]
    theirs = {job.inputs[0]["dataset"]: job.inputs[0]["configuration"] for job in shared}
    assert len(own) == len(joined_layers.METHODS) * 3 - 3
    assert all(job.inputs[0]["configuration"] == theirs[job.inputs[0]["dataset"]] for job in own)


def record(method: str, rmse: float, mnll: float) -> Record:
    inputs = {"method": method, "dataset": "energy", "task": "regression", "depth": 2, "width": 128, "split": 0}
    results: dict[str, Any] = {"metrics": {"rmse": rmse, "mnll": mnll}, "parameters": 1538}
    return {"name": name_of(inputs), "inputs": inputs, "results": results, "cpu_seconds": 1.0, "failures": 0}


def test_numbers_are_compared_with_a_g_for_each_layer() -> None:
    records = [record("whvi-embed", 2.0, 2.0), record("whvi-shared-g", 1.0, 3.0), record("whvi-one-matrix", 1.0, 1.0)]
    shown = joined_layers.show(records)
    assert shown.text.endswith(
        "Numbers that are better than with a g for each layer: shared g in 1 of 2, one matrix in 2 of 2."
    )
    errors, *_, parameters = shown.blocks
    assert isinstance(errors, Table)
    assert isinstance(parameters, Table)
    assert [cell.text for cell in parameters.rows[0]] == ["energy", "–", "1,538", "1,538", "1,538"]


def test_correlations_are_told_and_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(joined_layers, "DRAWN", 3)
    monkeypatch.setattr(joined_layers, "trained", lambda one: network(one["method"], 3, 1, 2, 8)[:4:2])
    inputs = [
        {"method": method, "dataset": "energy", "depth": 2, "width": 8, "seed": 0, "entries": 20}
        for method in joined_layers.METHODS
        if method != "whvi"
    ]
    results = joined_layers.measure(inputs, tmp_path, lambda share: None)
    own, shared, _ = (one["metrics"] for one in results)
    assert own["across_layers"] == 0.0 < own["within_layers"]
    assert shared["across_layers"] > 0.01
    shown = joined_layers.show(
        [{"name": name_of(i), "inputs": i, "results": r} for i, r in zip(inputs, results, strict=True)]
    )
    assert "own g, blocks of 128 0.000 (within a layer" in shown.text
    (figure,) = shown.blocks
    assert isinstance(figure, Figure)
    assert {entry.metric for entry in shown.entries} == {"across_layers", "within_layers"}
