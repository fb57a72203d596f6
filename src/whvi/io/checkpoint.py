"""Checkpoints: named tensors and a JSON state at a step, with checksums, written atomically, without pickle.

A checkpoint is two files of one folder. ``step-00001000.safetensors`` is written first; ``step-00001000.json`` has its
size and its sha256, and makes the checkpoint valid by being there. One at a time may write to a
folder: see ``lock.alone``.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from whvi.arguments import whole_number
from whvi.errors import ArgumentError, CheckpointError, InputTypeError
from whvi.io import atomic, manifest, packing
from whvi.io.lock import PATIENCE, alone

_OURS = re.compile(r"step-([0-9]{8,})\.(json|safetensors)")
_TEMPORARY = re.compile(rf"\.step-[0-9]{{8,}}\.(json|safetensors)\.[0-9a-f]+{re.escape(atomic.TEMPORARY_SUFFIX)}")


class SavedState(NamedTuple):
    """What was saved at a step."""

    step: int
    tensors: dict[str, Tensor]
    """On the CPU, in the order of their names, each with memory of its own."""
    state: dict[str, Any]


def save(
    folder: str | os.PathLike[str], step: int, tensors: Mapping[str, Tensor], state: dict[str, Any], keep: int = 2
) -> None:
    """Write the checkpoint of a step, then remove the ones before it, except the last ``keep`` with this one.

    Args:
        folder: created if missing. Files with other names are not changed; leftovers of an earlier crash are removed.
        step: at least 0. A checkpoint of the same step is replaced; those of later steps stay.
        tensors: of any shape, strides and device; tensors that share memory are written separately.
        state: None, bool, int, float (also inf and nan), str, list and dict, nested; a tuple comes back as a list.
        keep: at least 1.

    Law: ``load`` is bitwise exact; a crash at any moment leaves this checkpoint or the earlier ones, complete.

    >>> import torch
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for step in 10, 20, 30:
    ...         save(folder, step, {"weight": torch.full((2,), float(step))}, {"best": float("inf")})
    ...     steps(folder), load(folder)
    ([20, 30], SavedState(step=30, tensors={'weight': tensor([30., 30.])}, state={'best': inf}))
    """
    whole_number("step", step, least=0)
    whole_number("keep", keep)
    if not isinstance(state, dict):
        raise InputTypeError(f"state must be a dict of JSON values, got {type(state).__name__}")
    folder = Path(folder)
    commit, file = _paths(folder, step)
    data = packing.pack(tensors)
    text = manifest.write(manifest.Manifest(step, file.name, len(data), manifest.digest(data), state))
    if commit.exists() and not (file.is_file() and file.read_bytes() == data):
        commit.unlink()  # else a crash after the next write would leave it with tensors that are not its own
        atomic.sync_folder(folder)
    atomic.write_bytes(file, data)
    atomic.write_bytes(commit, text)
    _clean(folder, step, keep)


def replace(
    folder: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    state: dict[str, Any],
    check: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Write the only checkpoint of a folder, replacing an existing one.

    That must be of the same format, and no ``check`` of its state may raise an error.

    Law: several processes do so one after the other; a concurrent reader finds one of them, complete.
    """
    with alone(folder, wait=PATIENCE):
        there = steps(folder)
        if there:
            held = load(folder).state
            if held.get("format") != state.get("format"):
                raise CheckpointError(
                    f"{folder} holds a checkpoint of another kind, which would be replaced; use another folder"
                )
            if check is not None:
                check(held)
        save(folder, max(there, default=-1) + 1, tensors, state, keep=1)


def steps(folder: str | os.PathLike[str]) -> list[int]:
    """The steps of which ``folder`` has a checkpoint, in order; none if there is no such folder."""
    return _steps_of(_names(Path(folder)), "json")


def latest(folder: str | os.PathLike[str]) -> SavedState | None:
    """The last checkpoint of ``folder``, or None if it has none; a damaged one is an error and never skipped."""
    return load(folder) if steps(folder) else None


def load(folder: str | os.PathLike[str], step: int | None = None) -> SavedState:
    """The checkpoint of a step, or the last one; raises a CheckpointError if it is invalid."""
    folder = Path(folder)
    while True:
        found = steps(folder)
        try:
            return _load(folder, step, found)
        except CheckpointError:
            if steps(folder) == found:  # else a newer one has just taken its place
                raise


def _load(folder: Path, step: int | None, found: list[int]) -> SavedState:
    if not found:
        raise CheckpointError(f"{folder} has no checkpoint, a pair of files such as step-00001000.json; save one first")
    step = found[-1] if step is None else step
    if step not in found:
        raise CheckpointError(f"{folder} holds no checkpoint of step {step}; choose from {', '.join(map(str, found))}")
    try:
        return _read(folder, step)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; {_way_out(folder, step, found)}") from error


def _read(folder: Path, step: int) -> SavedState:
    commit, file = _paths(folder, step)
    if (size := _size(commit)) > manifest.LIMIT:
        raise CheckpointError(f"{commit} has {size} bytes, but a checkpoint has at most {manifest.LIMIT} of JSON")
    found = manifest.read(commit, _bytes(commit))
    manifest.check_equal(commit, "the step", found.step, step)
    manifest.check_equal(commit, "the file of tensors", found.file, file.name)  # so no path leads out of the folder
    manifest.check_equal(file, "the size", _size(file), found.size)
    data = _bytes(file)
    manifest.check_equal(file, "the sha256", manifest.digest(data), found.sha256)
    try:
        return SavedState(step, packing.unpack(data), found.state)
    except ArgumentError as error:
        raise CheckpointError(f"{file} is undamaged, but {error}") from error


def _way_out(folder: Path, step: int, found: list[int]) -> str:
    bad = [step]
    for older in reversed([each for each in found if each < step]):
        try:
            _read(folder, older)
        except CheckpointError:
            bad.append(older)
        else:
            return f"remove {_file_names(bad)} to resume from step {older}"
    return f"no older checkpoint is intact: restore from a copy, or remove {_file_names(bad)} to start anew"


def _file_names(of_steps: list[int]) -> str:
    return " and ".join(path.name for step in of_steps for path in _paths(Path(), step))


def _clean(folder: Path, step: int, keep: int) -> None:
    """Remove what is older than the last ``keep`` checkpoints up to ``step``, and what a crash left."""
    for old in [each for each in steps(folder) if each <= step][:-keep]:
        for path in _paths(folder, old):  # the JSON first: a crash in between leaves no half of a checkpoint
            _remove(path)
    names = _names(folder)
    for orphan in set(_steps_of(names, "safetensors")).difference(_steps_of(names, "json")):
        _remove(_paths(folder, orphan)[1])
    for name in filter(_TEMPORARY.fullmatch, names):
        _remove(folder / name)


def _remove(path: Path) -> None:
    if not path.is_dir():
        with suppress(PermissionError if os.name == "nt" else FileNotFoundError):  # Windows keeps what somebody reads
            path.unlink(missing_ok=True)


def _paths(folder: Path, step: int) -> tuple[Path, Path]:
    """The JSON and the tensors of a step."""
    return folder / f"step-{step:08d}.json", folder / f"step-{step:08d}.safetensors"


def _steps_of(names: list[str], kind: str) -> list[int]:
    """The steps of the files of a kind, in order; a name with too many zeros is not ours."""
    matches = [match for match in map(_OURS.fullmatch, names) if match and match[2] == kind]
    return sorted(int(match[1]) for match in matches if match[1] == f"{int(match[1]):08d}")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{folder} must be a folder that can be listed ({error.strerror})") from error


def _size(path: Path) -> int:
    """The size of a file, which must be a regular one: to open a pipe would wait for ever."""
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path} must be a file that can be opened ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} must be a regular file")
    return status.st_size


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} must be readable ({error.strerror})") from error
