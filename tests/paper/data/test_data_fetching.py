"""Finding and downloading, from a server on this machine."""

import dataclasses
import hashlib
import io
import os
import tarfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scripted_server import CONTENT, Server, cut, refused, whole

from whvi.errors import ArgumentError, WhviError
from whvi_paper.data import DATASETS, DataError, downloading, fetching, load
from whvi_paper.data.dataset import Dataset
from whvi_paper.data.gratings import Gratings

NAME = "yacht_hydrodynamics.data"


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_downloaded_once_and_read_as_published(yacht: Dataset, server: Server, cache: Path) -> None:
    first, second = load("yacht"), load("yacht")
    assert server.requests == 1
    assert files_in(cache) == [NAME]
    np.testing.assert_array_equal(first.x, np.arange(1, 7) + np.arange(2)[:, None])
    np.testing.assert_array_equal(second.y, [[7], [8]])
    assert first.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert first.target_names == ("ResiduaryResistance",)


@pytest.mark.parametrize("failure", [refused(503), refused(429), cut])
def test_tried_again_after_a_failure_that_may_pass(yacht: Dataset, server: Server, failure: object) -> None:
    server.answers = [failure, failure, whole]
    assert len(load("yacht")) == 2
    assert server.requests == 3


@pytest.mark.parametrize(
    ("answer", "requests", "message"),
    [
        (refused(404), 1, "404"),
        (refused(500), downloading.ATTEMPTS, "500"),
        (cut, downloading.ATTEMPTS, "ended after 20 of 28 bytes|20 bytes read"),
    ],
)
def test_given_up_with_advice_and_nothing_left(
    yacht: Dataset, server: Server, cache: Path, answer: object, requests: int, message: str
) -> None:
    server.answers = [answer]
    with pytest.raises(DataError, match=message) as caught:
        load("yacht")
    assert "set WHVI_DATA" in str(caught.value)
    assert server.requests == requests
    assert files_in(cache.parent.parent) == []


def test_waits_grow(yacht: Dataset, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=waits.append))
    server.answers = [refused(500)]
    with pytest.raises(DataError):
        load("yacht")
    assert waits == [1, 2, 3]


def test_no_network_is_one_clear_error(yacht: Dataset, server: Server, cache: Path) -> None:
    server.server.server_close()  # nobody listens there now
    with pytest.raises(DataError, match=r"could not be downloaded \(.*refused.*\); put a copy named"):
        load("yacht")
    assert files_in(cache.parent.parent) == []


def test_another_file_than_the_published_one_is_not_kept(yacht: Dataset, server: Server, cache: Path) -> None:
    own, published = yacht.files
    DATASETS["yacht"] = dataclasses.replace(yacht, files=(own, dataclasses.replace(published, sha256="0" * 64)))
    with pytest.raises(DataError, match=f"{server.url}.* sha256 .*, wanted 000"):
        load("yacht")
    DATASETS["yacht"] = dataclasses.replace(yacht, rows=3)
    with pytest.raises(DataError, match=r"x is \(2, 6\) .* wanted \(3, 6\)"):
        load("yacht")
    assert files_in(cache.parent.parent) == []


def test_a_server_that_never_ends_is_left(
    yacht: Dataset, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whvi_paper.data.downloading.MOST", len(CONTENT) - 1)
    with pytest.raises(DataError, match="sends more than the expected size"):
        load("yacht")
    assert server.requests == 1
    assert files_in(cache.parent.parent) == []


def test_a_damaged_copy_in_the_cache_is_named_and_replaced(yacht: Dataset, server: Server, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / NAME).write_bytes(CONTENT[:-9])
    with pytest.raises(DataError, match=f"{NAME}.*sha256.*; replace it with: whvi datasets fetch yacht"):
        load("yacht")
    assert server.requests == 0
    assert fetching.fetch(DATASETS["yacht"]) == cache / NAME
    assert load("yacht").sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_own_copies_come_before_the_cache(
    yacht: Dataset, server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching.fetch(yacht)
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("WHVI_DATA", str(folder))
    assert fetching.find(yacht) == (cache / NAME, yacht.files[1])
    (folder / NAME).write_bytes(CONTENT)
    assert fetching.find(yacht) == (folder / NAME, yacht.files[1])
    content = io.BytesIO()
    np.savez(content, X=np.ones((2, 6)), y=np.ones((2, 1)))
    (folder / "yacht.npz").write_bytes(content.getvalue())
    with pytest.raises(DataError, match=r"yacht.npz.* sha256 .*remove it"):
        load("yacht")


@pytest.mark.parametrize("damage", [b"", CONTENT, b"PK\x03\x04" + CONTENT])
def test_a_file_of_unknown_sha256_must_still_parse(cache: Path, damage: bytes) -> None:
    cache.mkdir(parents=True)
    (cache / "Postures.zip").write_bytes(damage)
    with pytest.raises(DataError, match="not the published file of mocap"):
        load("mocap")


@pytest.mark.parametrize("name", ["cifar10.npz", "cifar-10-binary.tar.gz"])
def test_a_truncated_copy_of_cifar10_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By its sha256; and a whole archive with too few images by their number, were its sha256 not known."""
    whole = cifar_archive(name)
    file = next(file for file in DATASETS["cifar10"].files if file.name == name)
    known = dataclasses.replace(file, sha256=hashlib.sha256(whole).hexdigest(), size=len(whole))
    small = dataclasses.replace(DATASETS["cifar10"], rows=12, files=(known,), class_sizes=None)
    monkeypatch.setitem(DATASETS, "cifar10", small)
    monkeypatch.setenv("WHVI_DATA", str(tmp_path))
    (tmp_path / name).write_bytes(whole)
    assert load("cifar10").x.shape == (12, 3, 32, 32)
    (tmp_path / name).write_bytes(whole[:-100])
    size = f"{len(whole) - 100:,} of {len(whole):,} bytes"
    with pytest.raises(DataError, match=f"{name}: not the .* it ends after {size}.*; copy it again, or remove it"):
        load("cifar10")
    unknown = dataclasses.replace(known, sha256=None)
    monkeypatch.setitem(DATASETS, "cifar10", dataclasses.replace(small, files=(unknown,)))
    with pytest.raises(DataError, match=f"{name}: not the published file of cifar10: .*; copy it again, or remove it"):
        load("cifar10")


def cifar_archive(name: str) -> bytes:
    """Twelve images as they are kept in a file of that name."""
    x, y = Gratings().data(12)
    content = io.BytesIO()
    if name.endswith(".npz"):
        np.savez_compressed(content, x_train=x[:10], y_train=y[:10], x_test=x[10:], y_test=y[10:])
        return content.getvalue()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for place in range(6):
            records = b"".join(bytes([y[i]]) + x[i].tobytes() for i in (2 * place, 2 * place + 1))
            batch = "test_batch" if place == 5 else f"data_batch_{place + 1}"
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{batch}.bin")
            entry.size = len(records)
            archive.addfile(entry, io.BytesIO(records))
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("boson", "dataset 'boson' is unknown; did you mean 'boston'"),
        ("Yacht", "did you mean 'yacht'"),
        ("???", "whvi datasets list"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load(name)


def test_what_cannot_be_fetched_says_why(cache: Path) -> None:
    with pytest.raises(ArgumentError, match="robot is generated"):
        fetching.fetch(DATASETS["robot"])
    with pytest.raises(DataError, match=r"set WHVI_DATA to a folder with partial/drive_subset_2200.npz"):
        load("drive-2200")


def test_a_wrong_folder_is_a_mistake_of_the_caller(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHVI_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(WhviError, match="nowhere', which is not a folder"):
        load("yacht")


def test_the_cache_is_where_the_platform_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHVI_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert fetching.cache_folder() == tmp_path / ".cache" / "whvi" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert fetching.cache_folder() == tmp_path / "other" / "whvi" / "data"


def test_the_catalogue_is_complete() -> None:
    for dataset in DATASETS.values():
        assert dataset.licence
        assert dataset.origin.startswith("http") or find_spec(dataset.origin)  # a page, or what computes it
        assert dataset.simulator or dataset.files
        for file in dataset.files:
            assert file.sha256 is None or len(file.sha256) == 64
            assert file.sha256 or dataset.class_sizes  # one of them knows it again
        if dataset.class_sizes:
            assert sum(dataset.class_sizes) == dataset.rows
            assert len(dataset.class_sizes) == len(dataset.targets)


COPIES = os.environ.get("WHVI_DATA")


@pytest.mark.skipif(not COPIES, reason="WHVI_DATA is not set")
@pytest.mark.parametrize("name", [name for name in DATASETS if name != "cifar10" and not DATASETS[name].simulator])
def test_the_copies_at_hand_are_those_of_the_catalogue(name: str) -> None:
    copy = fetching.find(DATASETS[name])
    if copy is None:
        pytest.skip(f"{name} is not here")
    with np.load(copy[0]) as arrays:
        data = load(name)
        np.testing.assert_array_equal(data.x, arrays["X"])
        assert data.feature_names == tuple(arrays["feature_names"])
