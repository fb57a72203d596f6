"""A model folder is whole, or not there, and a damaged one says so."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from whvi.errors import ArgumentError, CheckpointError
from whvi.io import canonical, manifest
from whvi.io import folder as sealed
from whvi_tables import folder
from whvi_tables.fitting import Fitted, fit_table
from whvi_tables.judging import Numbers
from whvi_tables.predicting import predict_table
from whvi_tables.reading import Table, read_table
from whvi_tables.settings import Settings

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "town": ["Ulm", "Bonn", "Rome"] * 20})
    frame["y"] = frame["x"] + (frame["town"] == "Ulm")
    return fit_table(Table(frame), Settings("y", steps=20, hidden=(8,)), lambda _: None)


@pytest.fixture
def model(fitted: Fitted, tmp_path: Path) -> Path:
    folder.save(fitted, tmp_path / "deep" / "model")("<html>")
    return tmp_path / "deep" / "model"


def names(path: Path) -> list[str]:
    return sorted(child.name for child in path.iterdir())


def test_loaded_model_predicts_the_same_bits(fitted: Fitted, model: Path) -> None:
    assert names(model) == ["columns.json", "estimator", "manifest.json", "metrics.json", "report.html"]
    loaded = folder.load(model)
    assert (loaded.task, loaded.target, loaded.columns) == (fitted.model.task, "y", fitted.model.columns)
    rows = pd.DataFrame({"x": [0.5, None], "town": ["Ulm", "Oslo"]})
    x = loaded.columns.matrix(rows).values
    for one, other in zip(
        loaded.estimator.predict_interval(x), fitted.model.estimator.predict_interval(x), strict=True
    ):
        assert np.array_equal(one, other)
    found = json.loads((model / "metrics.json").read_text())
    assert found["metrics"]["RMSE"]["model"] == fitted.judgement.metrics[0].value
    assert found["held_out_rows"] == 12


def test_folder_of_an_earlier_version_is_read() -> None:
    """golden/ was written by version 0.1.0 while ``whvi.tables`` was a part of whvi, its predictions too."""
    loaded = folder.load(GOLDEN / "model")
    assert [kind.kind for kind in loaded.columns.kinds] == ["number", "category", "boolean", "date", "dropped"]
    x = loaded.columns.matrix(read_table(GOLDEN / "new.csv").frame).values
    assert_allclose(predict_table(loaded, x, 0.9), pd.read_csv(GOLDEN / "predictions.csv"), rtol=1e-6)


def test_nothing_is_replaced_unasked(fitted: Fitted, model: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="exists; choose another --out, or --force"):
        folder.save(fitted, model)
    assert (model / "report.html").read_text() == "<html>"
    folder.save(fitted, model, force=True)("new")
    assert (model / "report.html").read_text() == "new"
    assert names(model.parent) == ["model"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    for place in (tmp_path / "mine", tmp_path / "mine" / "diary.txt"):
        with pytest.raises(ArgumentError, match="is not a model folder, so --force does not replace it"):
            folder.save(fitted, place, force=True)
    assert names(tmp_path / "mine") == ["diary.txt"]
    with pytest.raises(ArgumentError, match="not a folder that can be written"):
        folder.check_free(tmp_path / "mine" / "diary.txt" / "model", force=False)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("step", ["write_text", "write_bytes", "rename"])
def test_failed_save_leaves_what_was_there(
    fitted: Fitted, model: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], step: str
) -> None:
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    rename = Path.rename

    def fail(*_: object) -> None:
        raise error(28, "No space left on device", ".a.tmp")

    def rename_but_the_new(self: Path, target: Path) -> Path:
        if target == model and self.suffix == ".tmp":
            fail()
        return rename(self, target)

    if step == "rename":
        monkeypatch.setattr(Path, "rename", rename_but_the_new)
    else:
        monkeypatch.setattr(folder.atomic, step, fail)
    with pytest.raises(error) as caught:
        folder.save(fitted, model, force=True)
    if error is OSError:
        assert str(caught.value) == f"[Errno 28] No space left on device: '{model}'"
    assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == before
    assert names(model.parent) == ["model"]


def reseal(path: Path, **changes: object) -> None:
    """Change what a folder says of itself, with a checksum that fits."""
    content = canonical.parse(path.read_bytes())
    del content["sha256"]
    content |= changes
    path.write_bytes(canonical.dump({**content, "sha256": manifest.digest(canonical.dump(content))}))
    sealed.seal(path.parent)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def only(path: Path, pattern: str) -> Path:
    (found,) = path.glob(pattern)
    return found


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model: cut(model / "columns.json"), "columns.json is damaged"),
        (lambda model: (model / "columns.json").write_text('{"a":1}'), "does not belong to a model"),
        (lambda model: (model / "columns.json").write_text("[]"), "does not belong to a model"),
        (lambda model: (model / "columns.json").unlink(), "has no columns.json"),
        (lambda model: reseal(model / "columns.json", version=3), "written by a later whvi"),
        (lambda model: reseal(model / "columns.json", task="ranking"), "is damaged: 'ranking'"),
        (lambda model: reseal(model / "columns.json", task="classification"), "WHVIRegressor"),
        (lambda model: reseal(model / "columns.json", columns=[]), "mixes two models"),
        (lambda model: reseal(model / "columns.json", columns=[{"kind": "text"}]), "does not describe columns"),
        (lambda model: reseal(model / "columns.json", version=1.5), "unknown version"),
        (lambda model: cut(only(model, "estimator/*.safetensors")), "damaged or mixes two models"),
        (lambda model: cut(only(model, "estimator/*.json")), "damaged or mixes two models"),
        (lambda model: only(model, "estimator/*.json").unlink(), "is not complete"),
        (lambda model: (model / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda model: cut(model / "manifest.json"), "manifest.json is damaged"),
    ],
)
def test_damaged_folder_is_one_line(model: Path, damage: Callable[[Path], None], message: str) -> None:
    folder.load(model)
    damage(model)
    with pytest.raises(CheckpointError, match=message) as caught:
        folder.load(model)
    assert "\n" not in str(caught.value)
    assert re.search("; (restore it from a copy, or fit again|pass .*|upgrade)$", str(caught.value))


def test_flipped_bit_of_the_columns_is_seen(model: Path) -> None:
    path = model / "columns.json"
    text = path.read_text()
    path.write_text(text.replace('"Ulm"', '"Elm"'))
    with pytest.raises(CheckpointError, match="its sha256 differs from the stated one; restore it"):
        folder.load(model)


@pytest.fixture(scope="module")
def other() -> Fitted:
    """Another model of a table with the same columns."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": 100 * rng.normal(size=60), "town": ["Rome", "Bonn", "Ulm"] * 20})
    frame["y"] = 1000 - 7 * frame["x"]
    return fit_table(Table(frame), Settings("y", steps=20, hidden=(8,), seed=1), lambda _: None)


PARTS = ("columns.json", "estimator", "manifest.json", "metrics.json", "report.html")
MIXTURES = [kept for count in range(1, len(PARTS)) for kept in combinations(PARTS, count)]


@pytest.mark.parametrize("kept", MIXTURES, ids=["+".join(part.partition(".")[0] for part in kept) for kept in MIXTURES])
def test_a_folder_of_parts_of_two_models_is_refused(kept: tuple[str, ...], model: Path, other: Fitted) -> None:
    """Whichever parts are of the one and which of the other."""
    second = model.with_name("second")
    folder.save(other, second)("<html lang=en>")
    for name in kept:
        target = second / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        copy = shutil.copytree if (model / name).is_dir() else shutil.copy
        copy(model / name, target)
    with pytest.raises(CheckpointError, match="cannot be used"):
        folder.load(second)


def test_what_lies_beside_the_model_does_not_matter_but_in_the_estimator_it_does(model: Path, other: Fitted) -> None:
    (model / "predictions.csv").write_text("mean")
    (model / ".DS_Store").write_text("")
    folder.load(model)
    other.model.estimator.save(model / "later")
    for path in (model / "later").iterdir():
        path.rename(model / "estimator" / path.name.replace("0", "9"))
    with pytest.raises(CheckpointError, match=r"mixes two models: estimator/step-99999999.json"):
        folder.load(model)


def test_metrics_are_json_even_if_they_are_not_finite(fitted: Fitted, tmp_path: Path) -> None:
    assert isinstance(fitted.judgement, Numbers)
    constant = replace(fitted.judgement, y=np.full_like(fitted.judgement.y, 2.5))
    folder.save(replace(fitted, judgement=constant), tmp_path / "model")

    def refuse(text: str) -> None:
        raise AssertionError(text)

    found = json.loads((tmp_path / "model" / "metrics.json").read_text(), parse_constant=refuse)["metrics"]
    assert found["R²"] == {"model": None, "baseline": None}
    assert found["RMSE"]["model"] > 0


def test_place_that_cannot_be_written_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"cannot be written \(File name too long\); choose another --out"):
        folder.check_free(tmp_path / ("x" * 300), force=False)
    folder.check_free(tmp_path / "new" / "model", force=False)
    assert names(tmp_path) == []

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", "secret.tmp")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ArgumentError, match="is not a folder that can be written: Read-only file system") as caught:
        folder.check_free(tmp_path / "new" / "model", force=False)
    assert "secret" not in str(caught.value)


def test_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a folder"):
        folder.load(tmp_path / "nothing")
