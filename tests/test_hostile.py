"""Folders that somebody forged, with checksums that fit: refused in our words, at once, in little memory."""

import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from saved import KINDS, Kind
from whvi.errors import CheckpointError, WhviError
from whvi.io import canonical, checkpoint, manifest
from whvi.io import folder as sealed
from whvi.io.forged import check_stated
from whvi.sklearn import WHVIClassifier

BAD: list[Any] = [
    None, True, -1, 0, 2, 10**6, 10**9, 10**18, 10**400, -0.5, float("nan"), float("inf"), 1e300, "", "x", "U99999999",
    "planar:1000000000", "low_rank:100000000", "joint:full", "SHGPPPPPPPPHS", "../x", [], [1] * 5000, [10**9], {},
    {"$": [1]}, {"sys": "exit"},
]  # fmt: skip
SECONDS, BYTES = 1.0, 64 << 20
SHARE = int(os.environ.get("WHVI_FORGERIES", 60))
"""Forgeries of each kind that the suite tries: a sample of all, a few thousand."""


@pytest.fixture(scope="module", params=KINDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path]:
    kind, path = KINDS[request.param], tmp_path_factory.mktemp("saved") / request.param
    kind.make(path)
    kind.load(path)
    return kind, path


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgery need not be on the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@contextmanager
def small() -> Iterator[None]:
    """A block that takes little time of the processor and little memory."""
    memory = Path("/proc/self/status")
    known = memory.exists()
    if known:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak
        before = _kilobytes(memory, "VmRSS")
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS
    if known:
        assert (_kilobytes(memory, "VmHWM") - before) * 1024 < BYTES


def _kilobytes(status: Path, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of all values in nested JSON, those of lists and dicts too."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from leaves(part, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return made


def read(place: Path) -> Any:
    if place.is_dir():
        return checkpoint.load(place).state
    content = canonical.parse(place.read_bytes())
    del content["sha256"]
    return content


def write(place: Path, value: Any, tensors: dict[str, Tensor] | None = None) -> None:
    if place.is_dir():
        step, own, _ = checkpoint.load(place)
        checkpoint.save(place, step, own if tensors is None else tensors, value)
    else:
        place.write_bytes(canonical.dump({**value, "sha256": manifest.digest(canonical.dump(value))}))
    for above in (place, *place.parents):
        if (above / sealed.NAME).exists():
            sealed.seal(above)


def refused(kind: Kind, path: Path) -> str:
    """The words with which a folder is refused; "" where it is taken."""
    with small():
        try:
            kind.load(path)
        except WhviError as error:
            words = str(error)
            assert len(words) < 2000
            return words
    return ""


def test_no_forged_value_costs_more_than_a_moment(saved: tuple[Kind, Path]) -> None:
    kind, path = saved
    cases = []
    for name in kind.places:
        whole = read(path / name)
        cases += [(name, place, bad) for place in leaves(whole) if place for bad in BAD]
    taken = 0
    for name, place, bad in random.Random(0).sample(cases, min(SHARE, len(cases))):
        whole = read(path / name)
        write(path / name, changed(whole, place, bad))
        try:
            taken += not refused(kind, path)
        except Exception as error:
            raise AssertionError((name, place, bad)) from error
        finally:
            write(path / name, whole)
    assert taken < min(SHARE, len(cases)) / 2  # a history, or a name, may be another one
    assert not refused(kind, path)


def test_a_forged_folder_of_5_kb_takes_no_6_gb(tmp_path: Path) -> None:
    """As an attack had it: layers that the tensors do not hold."""
    KINDS["regressor"].make(tmp_path)
    state = read(tmp_path)
    for sizes in ([40_000, 40_000], [16] * 100_000, [10**30]):
        state["plain"]["_architecture"]["hidden_layer_sizes"] = sizes
        write(tmp_path, state)
        assert re.search("its tensors have|only .* tensors|must fit in 64 bits", refused(KINDS["regressor"], tmp_path))
    state["plain"]["_architecture"]["hidden_layer_sizes"] = [18, 18]  # as small as the tensors, but not theirs
    write(tmp_path, state)
    assert "but its settings need" in refused(KINDS["regressor"], tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("plain", "__class__"), 1, "it sets __class__"),
        (("plain", "predict"), 1, "it sets predict"),
        (("arrays", "spread_", "values"), [-1.0, 1.0], "spread_ has numbers that are not positive"),
        (("arrays", "spread_", "values"), [1.0], "must have 2 numbers"),
        (("arrays", "spread_", "dtype"), "<f8,(1000000000,)f8", "is not as an estimator is saved"),
        (("arrays", "spread_", "dtype"), "V1000000000", "got V1000000000"),
        (("arrays", "coef_"), {"dtype": "<f8", "values": [1.0]}, "it sets coef_"),
        (("parameters", "n_jobs"), 4, "unexpected keyword argument 'n_jobs'"),
        (("parameters", "samples"), 0, "samples must be at least 1"),
        (("parameters", "samples"), 10**18, "samples must be at most 1000000"),
    ],
)
def test_a_file_does_not_name_what_is_set(place: tuple[str, ...], value: object, message: str, tmp_path: Path) -> None:
    KINDS["regressor"].make(tmp_path)
    write(tmp_path, changed(read(tmp_path), place, value))
    assert re.search(re.escape(message), refused(KINDS["regressor"], tmp_path))


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    KINDS["regressor"].make(tmp_path)
    _, tensors, state = checkpoint.load(tmp_path)
    for name, value in {
        "x_scaling_.scale": torch.zeros(3),
        "x_scaling_.mean": torch.tensor([0.0, float("nan"), 0.0]),
        "y_scaling_.mean": torch.zeros(3),
        "model_.0.g.mean": torch.zeros(0, 1 << 40),
        "model_.extra": torch.zeros(1),
    }.items():
        write(tmp_path, state, {**tensors, name: value})
        assert refused(KINDS["regressor"], tmp_path)


def test_wide_texts_are_as_wide_as_they_are(tmp_path: Path) -> None:
    KINDS["classifier"].make(tmp_path)
    write(tmp_path, changed(read(tmp_path), ("arrays", "classes_", "dtype"), "<U400000000"))
    assert refused(KINDS["classifier"], tmp_path) == ""
    assert WHVIClassifier.load(tmp_path).classes_.dtype == "<U4"
    write(tmp_path, changed(read(tmp_path), ("arrays", "classes_", "values"), ["up", "down"]))
    assert "sorted" in refused(KINDS["classifier"], tmp_path)


def test_a_size_that_is_stated_is_found_wherever_it_stands() -> None:
    tensors = {"a": torch.zeros(2, 2), "b": torch.zeros(3)}
    check_stated({"sizes": [7, 7], "posterior": "planar:7", "deep": {"x": [None, True]}}, tensors)
    for value in (8, [8], {"a": {"b": 8}}, "planar:8", "low_rank:3:8", [1, 1, 1], 1e9):
        with pytest.raises(CheckpointError):
            check_stated(value, tensors)
