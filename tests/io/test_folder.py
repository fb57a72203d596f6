"""A sealed folder is one thing: any change is seen, and another takes its place at once."""

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from children import forked
from whvi.errors import CheckpointError
from whvi.io import atomic, canonical, checkpoint, folder
from whvi.io.lock import alone, turn
from whvi.io.manifest import digest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the tests of two processes copy this one")


def write(path: Path, content: str) -> Path:
    (path / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt"):
        (path / name).write_text(content)
    folder.seal(path)
    return path


def content(path: Path) -> str:
    folder.check(path)
    found = {(path / name).read_text() for name in ("a.txt", "deep/b.txt")}
    assert len(found) == 1
    return found.pop()


def reseal(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    found = canonical.parse((path / folder.NAME).read_bytes())
    del found["sha256"]
    change(found)
    (path / folder.NAME).write_bytes(canonical.dump({**found, "sha256": digest(canonical.dump(found))}))


def link(path: Path, name: str) -> None:
    """The same content, but by a symbolic link."""
    moved = path.parent / "elsewhere"
    (path / name).rename(moved)
    (path / name).symlink_to(moved)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "a.txt").write_text("other"), "a.txt differs"),
        (lambda path: (path / "a.txt").write_text("other, longer"), "a.txt differs"),
        (lambda path: (path / "deep/b.txt").unlink(), "not complete: deep/b.txt is missing"),
        (lambda path: (path / "deep/c.txt").write_text(""), "mixes two models: deep/c.txt"),
        (lambda path: (path / folder.NAME).unlink(), "not complete: manifest.json is missing"),
        (lambda path: (path / folder.NAME).write_bytes(b" " * (folder.LIMIT + 1)), "at most"),
        (lambda path: (path / folder.NAME).write_bytes(b"[" * 100_000), "is damaged"),
        (lambda path: (path / folder.NAME).write_bytes(b"9" * 100_000), "is damaged"),
        (lambda path: (path / folder.NAME).write_bytes(b'{"a":1,"a":2}'), "is damaged"),
        (lambda path: (path / folder.NAME).write_bytes(b"{}"), "not a manifest"),
        (lambda path: (path / folder.NAME).write_bytes(b"[]"), "not a manifest"),
        (lambda path: link(path, "a.txt"), "a.txt must be a regular file"),
        (lambda path: link(path, "deep"), "not complete: deep/b.txt"),
        (lambda path: link(path, folder.NAME), "a regular file"),
        (lambda path: reseal(path, lambda found: found.update(version=2)), "later whvi"),
        (lambda path: reseal(path, lambda found: found.update(files=[])), "damaged"),
        (lambda path: reseal(path, lambda found: found.update(files={"a.txt": 3})), "does not describe files"),
        (lambda path: reseal(path, lambda found: found.update(files={"../a": {}})), "not complete: ../a"),
        (lambda path: reseal(path, lambda found: found.update(files={"/etc/passwd": {}})), "not complete: /etc"),
    ],
)
def test_any_change_is_seen(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "one", "first")
    assert content(path) == "first"
    damage(path)
    with pytest.raises(CheckpointError, match=message):
        folder.check(path)


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    place = write(tmp_path / "place", "old")
    with pytest.raises(CheckpointError, match="was created by another process"):
        folder.put(write(tmp_path / "new", "new"), place)
    assert content(place) == "old"
    folder.put(tmp_path / "new", place, replace=True)
    assert content(place) == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_a_file_is_added_to_the_folder_that_it_belongs_to(tmp_path: Path) -> None:
    """As a report is, which is drawn when its model is there already and may have been replaced."""
    one, two = (write(tmp_path / name, name) for name in ("one", "two"))
    manifest = (one / folder.NAME).read_bytes()
    folder.add(one, "report", "of one", manifest)
    assert content(one) == "one"
    with pytest.raises(CheckpointError, match="two was replaced by another process; report is not written"):
        folder.add(two, "report", "of one", manifest)
    assert not (two / "report").exists()
    (one / "report").write_text("other")
    with pytest.raises(CheckpointError, match="report differs from the manifest"):
        folder.check(one)


@pytest.mark.parametrize("kill", range(1, 4))
def test_a_kill_at_any_rename_leaves_one_of_the_two(kill: int, tmp_path: Path) -> None:
    """And the next one to come puts all in order."""
    place = write(tmp_path / "place", "old")
    new = write(tmp_path / "new", "new")
    child = os.fork()
    if not child:
        left = [kill]

        def die(event: str, _: object) -> None:
            left[0] -= event in ("os.rename", "shutil.rmtree") and "place" in str(_)
            if not left[0]:
                os._exit(9)

        sys.addaudithook(die)
        folder.put(new, place, replace=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert folder.read(place, content) in ("old", "new")
    folder.put(write(tmp_path / "third", "third"), place, replace=True)
    assert folder.read(place, content) == "third"
    assert not folder.standing(place).name.startswith(".")


def test_writers_take_turns_and_readers_are_not_disturbed(tmp_path: Path) -> None:
    place = write(tmp_path / "place", "0")

    def keep_writing(name: str) -> None:
        for number in range(30):
            folder.put(write(tmp_path / f"new-{name}-{number}", f"{name}{number}"), place, replace=True)

    children = [forked(partial(keep_writing, name)) for name in "ab"]
    seen = set()
    while children:
        seen.add(folder.read(place, content))
        done, status = os.waitpid(children[0], os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            children.pop(0)
    assert len(seen) > 3
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_a_place_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with turn(tmp_path / "place"), pytest.raises(CheckpointError, match=r"another run is using .*place"):
        turn(tmp_path / "place", wait=0.05).__enter__()
    with turn(tmp_path / "place", wait=0.0):
        pass
    assert list(tmp_path.iterdir()) == []
    with alone(tmp_path / "folder"), pytest.raises(CheckpointError, match="another run is using"):
        alone(tmp_path / "folder", wait=0.05).__enter__()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write(tmp_path / "place", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "new", "new")
    shutil.rmtree(tmp_path / "new")
    assert content(place) == "old"


def test_checkpoints_that_are_replaced_are_whole_for_all(tmp_path: Path) -> None:
    """As estimators and adapters save themselves: two writers and a reader, and nobody is disturbed."""

    def save(value: float) -> None:
        tensors, state = {"x": torch.full((999,), value)}, {"value": value}
        checkpoint.replace(tmp_path, tensors, state)

    save(0.0)

    def save_all(first: int) -> None:
        for number in range(first, first + 30):
            save(float(number))

    children = [forked(partial(save_all, 100 * writer)) for writer in (1, 2)]
    seen = set()
    while children:
        found = checkpoint.load(tmp_path)
        assert set(found.tensors["x"].tolist()) == {found.state["value"]}
        seen.add(found.state["value"])
        done, status = os.waitpid(children[0], os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            children.pop(0)
    assert len(seen) > 3
    assert len(list(tmp_path.iterdir())) == 2
