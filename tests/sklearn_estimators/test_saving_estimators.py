"""What is saved comes back in the same bits, or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from whvi.errors import CheckpointError
from whvi.io import checkpoint
from whvi.sklearn import WHVIClassifier, WHVIRegressor

QUICK: dict[str, Any] = {"n_members": 1, "hidden_layer_sizes": (16,), "max_steps": 20, "random_state": 0, "samples": 8}
RNG = np.random.RandomState(0)
X = RNG.randn(40, 3)
Y = X[:, 0] + 0.1 * RNG.randn(40)

ESTIMATORS: dict[str, Any] = {
    "regressor": lambda: WHVIRegressor(**QUICK).fit(X, Y),
    "input noise": lambda: WHVIRegressor(**QUICK, noise="input", posterior="low_rank:2").fit(X, Y),
    "two outputs": lambda: WHVIRegressor(**QUICK).fit(X, np.column_stack([Y, -Y])),
    "streamed": lambda: WHVIRegressor(**QUICK).partial_fit(X, Y).partial_fit(X, Y),
    "named columns": lambda: WHVIRegressor(**QUICK).fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y),
    "strings": lambda: WHVIClassifier(**QUICK).fit(X, np.where(Y > 0, "up", "down")),
    "objects": lambda: WHVIClassifier(**QUICK).fit(X, np.where(Y > 0, "up", "down").astype(object)),
    "truth": lambda: WHVIClassifier(**QUICK).fit(X, Y > 0),
    "numbers": lambda: WHVIClassifier(**QUICK).fit(X, np.sign(Y).astype(int)),
    "members": lambda: WHVIRegressor(**{**QUICK, "n_members": 3}, noise="input").fit(X, Y),
    "members of classes": lambda: WHVIClassifier(**{**QUICK, "n_members": 2}).fit(X, Y > 0),
    "streamed members": lambda: WHVIRegressor(**{**QUICK, "n_members": 2}).partial_fit(X, Y),
    "generator": lambda: WHVIClassifier(**{**QUICK, "random_state": np.random.RandomState(1)}).fit(X, Y > 0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]()
    model.save(tmp_path / "model")
    same = type(model).load(tmp_path / "model")
    x = pd.DataFrame(X, columns=["a", "b", "c"]) if name == "named columns" else X
    assert (same.predict(x) == model.predict(x)).all()
    assert same.predict(x).dtype == model.predict(x).dtype
    assert same.history_["elbo"] == model.history_["elbo"]
    wanted = model.get_params() | ({"random_state": None} if name == "generator" else {})
    assert same.get_params() == wanted
    if hasattr(model, "classes_"):
        assert same.classes_.dtype == model.classes_.dtype
        assert (same.classes_ == model.classes_).all()
    if hasattr(model, "feature_names_in_"):
        assert list(same.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["streamed", "streamed members"])
def test_a_stream_goes_on_where_it_was_saved(name: str, tmp_path: Path) -> None:
    model = ESTIMATORS[name]()
    model.save(tmp_path)
    same = WHVIRegressor.load(tmp_path)
    assert (same.partial_fit(X, Y).predict(X) == model.partial_fit(X, Y).predict(X)).all()


def test_parameters_changed_after_the_fit_do_not_change_what_is_saved(tmp_path: Path) -> None:
    model = ESTIMATORS["regressor"]()
    model.set_params(hidden_layer_sizes=(4, 4), noise="input").save(tmp_path)
    assert (WHVIRegressor.load(tmp_path).predict(X) == model.predict(X)).all()


def test_the_second_takes_the_place_of_the_first_and_nothing_is_a_pickle(tmp_path: Path) -> None:
    ESTIMATORS["regressor"]().save(tmp_path)
    second = ESTIMATORS["two outputs"]()
    second.save(tmp_path)
    assert (WHVIRegressor.load(tmp_path).predict(X) == second.predict(X)).all()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_damaged_file_is_an_error(suffix: str, tmp_path: Path) -> None:
    ESTIMATORS["regressor"]().save(tmp_path)
    (path,) = tmp_path.glob(f"*{suffix}")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError):
        WHVIRegressor.load(tmp_path)


def test_folders_of_other_things_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        WHVIRegressor.load(tmp_path / "absent")
    ESTIMATORS["truth"]().save(tmp_path / "classifier")
    with pytest.raises(CheckpointError, match=r"WHVIClassifier\.load"):
        WHVIRegressor.load(tmp_path / "classifier")
    checkpoint.save(tmp_path / "run", 0, {"a": torch.zeros(1)}, {"steps": 1})
    with pytest.raises(CheckpointError, match="not of an estimator"):
        WHVIRegressor.load(tmp_path / "run")


def test_what_is_not_such_an_estimator_is_not_replaced(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "run", 20, {"weight": torch.zeros(1)}, {"step": 20})
    ESTIMATORS["truth"]().save(tmp_path / "classifier")
    model = ESTIMATORS["regressor"]()
    kinds = {
        "run": "a checkpoint of another kind, which would be replaced",
        "classifier": "a WHVIClassifier, which a WHVIRegressor would replace",
    }
    for name, held in kinds.items():
        before = sorted(path.name for path in (tmp_path / name).iterdir())
        with pytest.raises(CheckpointError, match=f"holds {held}"):
            model.save(tmp_path / name)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == before


@pytest.mark.parametrize("suffix", [".json", ".safetensors"])
def test_a_folder_of_parts_of_two_estimators_is_refused(suffix: str, tmp_path: Path) -> None:
    for name, targets in (("one", Y), ("two", 100.0 * Y)):
        WHVIRegressor(**QUICK).fit(X, targets).save(tmp_path / name)
    (ours,), (theirs,) = ((tmp_path / name).glob(f"*{suffix}") for name in ("one", "two"))
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(CheckpointError, match="is damaged or of another origin"):
        WHVIRegressor.load(tmp_path / "one")
