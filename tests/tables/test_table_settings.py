"""Settings from options and from a file."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from whvi.errors import ArgumentError
from whvi_tables.settings import _READERS, Settings, settle
from whvi_tables.task import Task

ALL = """
target = "price"
task = "classification"
out = "folder"
test_share = 0.3
drop = ["a", "b"]
steps = 10
hidden = [8, 4]
seed = 3
level = 0.8
posterior = "full"
batch_size = 32
learning_rate = 0.1
samples = 7
noise = "input"
early_stopping = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(ALL)
    return path


def test_file_can_say_everything(config: Path) -> None:
    estimator = ("full", 32, 0.1, 7, "input", True)
    wanted = Settings("price", Task.CLASSIFICATION, Path("folder"), 0.3, ("a", "b"), 10, (8, 4), 3, 0.8, *estimator)
    assert settle({}, config) == wanted
    assert list(_READERS) == [field.name for field in fields(Settings)]
    assert all(f"\n{field.name} = " in ALL for field in fields(Settings))


def test_options_win(config: Path) -> None:
    options = {"target": "rent", "task": "auto", "hidden": "16", "steps": None, "seed": 0, "out": Path("x")}
    found = settle(options, config)
    assert (found.target, found.task, found.hidden, found.steps, found.seed) == ("rent", None, (16,), 10, 0)


def test_what_nobody_said_is_left_to_the_estimator() -> None:
    assert settle({"target": "price"}).for_estimator() == {"random_state": 0}
    found = settle({"target": "price", "steps": 5, "hidden": "4,4"}).for_estimator()
    assert found == {"random_state": 0, "max_steps": 5, "hidden_layer_sizes": (4, 4)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz = 3", "unknown key 'stepz'; did you mean 'steps'?"),
        ("zzz = 3", "known are target, task"),
        ("steps = 0", "steps in .* must be a whole number of at least 1, got 0"),
        ("steps = true", "must be a whole number"),
        ("steps = 1.5", "must be a whole number"),
        ("seed = -1", "from 0 to 4294967295"),
        ("seed = 4294967296", "from 0 to 4294967295, got 4294967296"),
        ("test_share = 1", "between 0 and 1"),
        ("level = 0", "between 0 and 1"),
        ("learning_rate = nan", "a number above 0"),
        ("hidden = 'wide'", "widths of layers"),
        ("hidden = 64", "widths of layers"),
        ("hidden = [0]", "of at least 1|widths"),
        ("drop = 'a'", "a list of columns"),
        ("task = 'guess'", "auto, regression or classification"),
        ("target = 3", "must be a text"),
        ("early_stopping = 1", "true or false"),
        ("steps = ", "cannot be read as TOML"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=message) as caught:
        settle({"target": "price"} if "target" not in text else {}, path)
    assert "\n" not in str(caught.value)


def test_largest_seed_is_one_of_numpy() -> None:
    seed = settle({"target": "price", "seed": 2**32 - 1}).seed
    np.random.RandomState(seed)
    with pytest.raises(ValueError, match="Seed must be between"):
        np.random.RandomState(seed + 1)


def test_missing_target_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no target was given"):
        settle({"target": None})
    with pytest.raises(ArgumentError, match="is not a file"):
        settle({"target": "price"}, tmp_path)
    (tmp_path / "latin.toml").write_bytes('target = "é"'.encode("latin-1"))
    with pytest.raises(ArgumentError, match="cannot be read as TOML"):
        settle({}, tmp_path / "latin.toml")
