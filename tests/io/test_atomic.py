"""A file is the old one or the new one, whatever goes wrong in between."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from whvi.io import atomic, canonical


class Broken:
    """Raises at call number ``at``, counted from 0, and calls the original before that."""

    def __init__(self, original: Any, error: BaseException, at: int = 0) -> None:
        self.original, self.error, self.at, self.calls = original, error, at, 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls > self.at:
            raise self.error
        return self.original(*args, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("old", [None, b"", b"old" * 1000])
@pytest.mark.parametrize("new", [b"", b"new\x00\xff\r\n"])
def test_bytes_are_written_as_they_are(tmp_path: Path, old: bytes | None, new: bytes) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_bytes(old)
    atomic.write_bytes(path, new)
    assert files(tmp_path) == {"file": new}


def test_text_is_utf8_and_json_is_canonical(tmp_path: Path) -> None:
    value = {"best": float("inf"), "rate": [0.1, None], "name": "λ"}
    atomic.write_text(str(tmp_path / "text"), "λ = 1\n")
    atomic.write_json(tmp_path / "json", value)
    assert files(tmp_path) == {"text": b"\xce\xbb = 1\n", "json": canonical.dump(value)}
    assert canonical.parse((tmp_path / "json").read_bytes()) == value


def test_parent_folders_are_made(tmp_path: Path) -> None:
    atomic.write_bytes(tmp_path / "a" / "b" / "file", b"new")
    assert files(tmp_path / "a" / "b") == {"file": b"new"}


def test_relative_path_and_longest_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "x" * 255, "λ" * 127):
        atomic.write_bytes(name, b"new")
        assert (tmp_path / name).read_bytes() == b"new"


def test_permissions_are_those_of_a_plain_file(tmp_path: Path) -> None:
    atomic.write_bytes(tmp_path / "atomic", b"")
    (tmp_path / "plain").write_bytes(b"")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException, old: bytes | None
) -> None:
    if old is not None:
        (tmp_path / "file").write_bytes(old)
    before = files(tmp_path)
    broken = Broken(getattr(os, call), error)
    monkeypatch.setattr(os, call, broken)
    with pytest.raises(type(error)):
        atomic.write_bytes(tmp_path / "file", b"new")
    assert broken.calls == 1
    assert files(tmp_path) == before


def test_failure_of_the_write_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(TypeError):
        atomic.write_bytes(tmp_path / "file", "text")  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError):
        atomic.write_bytes(tmp_path, b"new")
    assert files(tmp_path) == {"file": b"old"}
    assert not [path for path in tmp_path.parent.iterdir() if path.name.endswith(atomic.TEMPORARY_SUFFIX)]


def test_failure_to_sync_the_folder_is_told_and_the_new_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Broken(os.fsync, OSError(errno.EIO, "disk"), at=1))
    with pytest.raises(OSError, match="disk"):
        atomic.write_bytes(tmp_path / "file", b"new")
    assert files(tmp_path) == {"file": b"new"}


def test_order_is_write_sync_rename_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def see_fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"{os.fstat(descriptor).st_size} bytes"
        events.append(f"sync {kind}")
        fsync(descriptor)

    def see_replace(source: Path, target: Path) -> None:
        assert Path(source).parent == Path(target).parent == tmp_path
        events.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr(os, "replace", see_replace)
    atomic.write_bytes(tmp_path / "file", b"12345")
    assert events == ["sync 5 bytes", "rename", "sync folder"]
