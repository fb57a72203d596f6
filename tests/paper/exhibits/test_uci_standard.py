"""The exhibit of standard splits: its methods on a small table, its tables, and its data."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whvi.errors import ArgumentError
from whvi_paper import tabular
from whvi_paper.blocks import Table
from whvi_paper.cli import with_data
from whvi_paper.data import DataError, standard
from whvi_paper.data.standard import standard_split
from whvi_paper.exhibits import uci_standard
from whvi_paper.store import Record, Store, name_of


def table(rows: int = 120) -> tuple[tabular.Array, tabular.Array]:
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, (rows, 2))
    return x, 30.0 + 5.0 * np.sin(x[:, 0]) + 0.5 * rng.randn(rows)


def record(dataset: str, method: str, split: int, value: float) -> Record:
    inputs = uci_standard.inputs(dataset, method, split)
    metrics = dict.fromkeys(uci_standard.TABLES, value) | {"coverage_90": 0.9}
    results = {"metrics": metrics, "data_sha256": "0"}
    return {"name": name_of(inputs), "inputs": inputs, "results": results, "cpu_seconds": 2.0, "failures": 0}


def texts(block: Any) -> dict[str, list[str]]:
    assert isinstance(block, Table)
    return {row[0].text: [cell.text for cell in row[1:]] for row in block.rows}


@pytest.mark.parametrize("method", ["gp", "boosting", "ensemble", "ngboost"])
def test_a_rival_learns_and_says_how_sure_it_is(method: str) -> None:
    if method == "ngboost":
        pytest.importorskip("ngboost")
    x, y = table()
    found = uci_standard.FITTED[method](x[:80], y[:80], 0)(x[80:], y[80:])
    metrics = uci_standard.judged(found, y[80:])
    assert metrics["rmse"] < 0.6 * y.std()
    assert 0.0 < metrics["crps"] < metrics["rmse"]
    assert 0.2 <= metrics["coverage_90"] <= 1.0
    assert metrics["width_90"] == pytest.approx(np.mean(found.high - found.low), rel=1e-5)
    assert all(len(part) == 40 for part in found[:4])


def test_ours_says_what_the_estimator_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(random_state: int, **chosen: int) -> Any:
        return real((8,), max_steps=20, random_state=random_state, **chosen)

    real = tabular.WHVIRegressor
    monkeypatch.setattr(tabular, "WHVIRegressor", small)
    x, y = table(40)
    found = tabular.whvi(x, y, 3, members=2)(x[:5], y[:5])
    model = small(3, n_members=2).fit(x, y)
    np.testing.assert_array_equal(found.mean, model.predict(x[:5]))
    np.testing.assert_array_equal(found.log_prob, model.log_prob(x[:5], y[:5]))


def test_a_normal_forecast_has_the_scores_of_its_distribution() -> None:
    mean, std, y = np.zeros(2), np.array([1.0, 2.0]), np.array([0.0, 4.0])
    found = tabular.gaussian(mean, std, y)
    np.testing.assert_allclose(found.log_prob, [-0.9189385, -0.9189385 - np.log(2.0) - 2.0], rtol=1e-6)
    np.testing.assert_allclose(found.high, [1.644854, 3.289707], rtol=1e-6)
    assert uci_standard.judged(found, y)["coverage_90"] == 0.5


def test_every_split_of_every_set_is_asked_of_every_method() -> None:
    asked = [one for job in uci_standard.jobs("recipe") for one in job.inputs]
    assert len(asked) == (7 * 20 + 5) * len(uci_standard.METHODS)
    assert {one["method"] for one in asked} == set(uci_standard.FITTED) == set(uci_standard.METHODS)
    assert all(len(row) >= 7 for _, row in uci_standard.PUBLISHED.values())


def test_tables_say_how_many_splits_there_are_and_rank_whole_rows() -> None:
    records = [record("yacht", method, 0, float(place)) for place, method in enumerate(uci_standard.METHODS, 1)]
    records += [record("yacht", "whvi", 1, 3.0), record("boston", "whvi-8", 0, 2.40)]
    shown = uci_standard.show(records)
    rmse, *_, published = shown.blocks
    rows = texts(rmse)
    assert rows["yacht"][:2] == ["2.00 (1.41)\n2 of 20 splits", "2.00\n1 of 20 splits"]
    assert rows["boston"] == ["–", "2.40\n1 of 20 splits", *["–"] * 4]
    assert rows["mean rank"] == ["1.00", "2.00", "3.00", "4.00", "5.00", "6.00"]  # of split 0, which all have
    assert texts(published)["boston"] == ["2.40", "2.40", "2.54", "6.11", "2.55", "2.62", "2.400", "2.900"]
    assert "at or below every published MNLL on 1 of 2 sets" in shown.text
    assert "RMSE of MC dropout on 1, and their 90 % intervals hold 88 to 92 % on 2" in shown.text


def test_a_split_holds_each_row_once_and_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = table(20)
    monkeypatch.setenv("WHVI_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"standard/yacht\.npz is not a file; set WHVI_DATA"):
        standard_split("yacht", 0)
    path = tmp_path / "standard" / "yacht.npz"
    path.parent.mkdir()
    np.savez(path, X=x, y=y[:, None], test_0=np.array([3, 7]))
    with pytest.raises(DataError, match="another file: sha256"):
        standard_split("yacht", 0)
    monkeypatch.setitem(standard.SHA256, "yacht", hashlib.sha256(path.read_bytes()).hexdigest())
    found = standard_split("yacht", 0)
    assert (found.test_y == y[[3, 7]]).all()
    assert sorted([*found.y, *found.test_y]) == sorted(y)
    np.testing.assert_array_equal(found.test_x, x[[3, 7]])
    for name, index in (("yacht", 20), ("wine", 0), ("yacht", -1)):
        with pytest.raises(ArgumentError, match="is unknown"):
            standard_split(name, index)


@pytest.mark.parametrize("name", ["yacht", "protein"])
def test_the_standard_files_are_those_of_the_catalogue(name: str) -> None:
    try:
        found = standard_split(name, 0)
    except DataError as error:
        pytest.skip(str(error))
    assert len(found.test_y) == pytest.approx(0.1 * (len(found.y) + len(found.test_y)), rel=0.01)


def test_a_job_gives_the_metrics_of_its_split(tmp_path: Path) -> None:
    (first, *_) = uci_standard.jobs("smoke")
    try:
        (found,) = first.function(first.inputs, tmp_path, lambda share: None)
    except DataError as error:
        pytest.skip(str(error))
    assert set(found["metrics"]) == set(uci_standard.TABLES)
    assert found["data_sha256"] == standard.SHA256["yacht"]


def test_without_the_splits_nothing_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, store = uci_standard.jobs("quick"), Store(tmp_path / "results")
    monkeypatch.setenv("WHVI_DATA", str(tmp_path))
    with pytest.raises(ArgumentError, match="no job has data"):
        with_data(jobs, store)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # yacht and concrete, once each
    looked_for = f"yacht is skipped: its splits are missing: {tmp_path}/standard/yacht.npz is not a file; set WHVI_DATA"
    assert lines[0].startswith(looked_for)
    monkeypatch.delenv("WHVI_DATA")
    with pytest.raises(DataError, match=r"standard/yacht\.npz of WHVI_DATA, which is not set; set WHVI_DATA to"):
        standard_split("yacht", 0)
