"""Folders with a manifest of hashes of their files, and their atomic replacement.

The hashes show that files belong together and are undamaged. They are not a signature: anyone who can write to the
folder can write a matching manifest.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from whvi.errors import ArgumentError, CheckpointError
from whvi.io import atomic, canonical
from whvi.io.lock import turn
from whvi.io.manifest import digest

NAME = "manifest.json"
FORMAT = "whvi folder"
VERSION = 1
LIMIT = 1 << 20
"""Bytes of a manifest."""
_PIECE = 1 << 20
Result = TypeVar("Result")


def seal(folder: Path) -> bytes:
    """Write the manifest of all files of a folder, the last of them."""
    return _write(folder, {name: _entry(folder / name) for name in _names(folder)})


def add(place: Path, name: str, text: str, manifest: bytes) -> None:
    """Write one more file of the folder whose manifest this is; CheckpointError if another has taken its place."""
    with turn(place):
        if _state(place) != (place, manifest):
            raise CheckpointError(f"{place} was replaced by another process; {name} is not written")
        files = _read(place / NAME)
        atomic.write_text(place / name, text)  # no part of the folder until the manifest names it
        _write(place, {**files, name: _entry(place / name)})


def check(folder: Path) -> None:
    """Raise a CheckpointError if a folder differs from its manifest.

    Files beside those of the manifest are no part of it; in a folder that the manifest names there may be no others.
    """
    files = _read(folder / NAME)
    there = set(_names(folder))
    if missing := sorted(files.keys() - there):
        raise CheckpointError(f"{folder} is not complete: {', '.join(missing[:3])} is missing")
    own = {name.partition("/")[0] for name in files if "/" in name}
    if more := sorted(name for name in there - files.keys() if name.partition("/")[0] in own and "/" in name):
        raise CheckpointError(f"{folder} mixes two models: {', '.join(more[:3])} belongs to another one")
    for name, entry in files.items():
        if _entry(folder / name, limit=entry.get("bytes")) != entry:
            raise CheckpointError(f"{folder} is damaged or mixes two models: {name} differs from the manifest")


def put(new: Path, place: Path, *, replace: bool = False) -> None:
    """Move a folder to a place; with ``replace`` also where one stands, which is then removed.

    Law: at any moment ``standing(place)`` is the old folder or the new one, whole, also where the process is killed.
    """
    before = _before(place)
    with turn(place):
        if standing(place) == before:  # an earlier process ended between two renames
            before.rename(place)
        if os.path.lexists(place) and not replace:
            raise CheckpointError(f"{place} was created by another process; choose another folder")
        shutil.rmtree(before, ignore_errors=True)
        if os.path.lexists(place):
            place.rename(before)  # a folder with files in it cannot be renamed over
        try:
            new.rename(place)
        except BaseException:
            if before.exists() and not place.exists():
                before.rename(place)
            raise
        shutil.rmtree(before, ignore_errors=True)
    atomic.sync_folder(place.parent)


def standing(place: Path) -> Path:
    """Where the folder of a place is: there, or beside it for the moment in which ``put`` replaces it."""
    before = _before(place)
    return before if before.is_dir() and not os.path.lexists(place) else place


def read(place: Path, load: Callable[[Path], Result]) -> Result:
    """What ``load`` makes of the folder of a place; again, where that was replaced meanwhile."""
    while True:
        seen = _state(place)
        try:
            found = load(seen[0])
        except Exception:  # of whatever kind, as a reader may have seen a part of each
            if _state(place) == seen:
                raise
            continue
        if _state(place) == seen:
            return found


def _state(place: Path) -> tuple[Path, bytes]:
    """Where a folder stands, and its manifest, which is another one for each that is written."""
    folder = standing(place)
    try:
        return folder, (folder / NAME).read_bytes()[:LIMIT]
    except OSError:
        return folder, b""


def _before(place: Path) -> Path:
    place = place.resolve() if place.name in ("", "..") else place  # "." has no name
    return place.with_name(f".{place.name[:64]}.before")


def _names(folder: Path) -> list[str]:
    """Paths of all files below a folder, with slashes, except the manifest and hidden files."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    names = [path.relative_to(folder).as_posix() for path in found]
    return sorted(name for name in names if name != NAME and not any(part[0] == "." for part in name.split("/")))


def _entry(path: Path, limit: int | None = None) -> dict[str, Any]:
    """Size and hash of a file, which must be a regular one; of one that is larger than expected the size is enough."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} must be a regular file")
    if limit is not None and status.st_size != limit:
        return {"bytes": status.st_size}
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return {"bytes": status.st_size, "sha256": found.hexdigest()}


def _write(folder: Path, files: dict[str, Any]) -> bytes:
    content = {"format": FORMAT, "version": VERSION, "files": files}
    manifest = canonical.dump({**content, "sha256": digest(canonical.dump(content))})
    atomic.write_bytes(folder / NAME, manifest)
    return manifest


def _read(path: Path) -> dict[str, Any]:
    """The files that a manifest names."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
            raise CheckpointError(f"{path} must be a manifest, a regular file of at most {LIMIT} bytes")
        found = canonical.parse(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is not complete: {path.name} is missing") from None
    except ArgumentError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is damaged: {error}") from error
    seal = found.pop("sha256", None) if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not a manifest that whvi wrote")
    if found.get("version") != VERSION:
        raise CheckpointError(
            f"{path} was written by a later whvi (version {found.get('version')!r:.20}, this reads {VERSION}); upgrade"
        )
    files = found.get("files")
    if digest(canonical.dump(found)) != seal or not isinstance(files, dict):
        raise CheckpointError(f"{path} is damaged: its sha256 differs from the stated one")
    if not all(isinstance(entry, dict) for entry in files.values()):
        raise CheckpointError(f"{path} does not describe files")
    return files
