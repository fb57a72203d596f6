"""The JSON of a checkpoint: facts about it and its tensors, with a checksum."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from whvi.errors import ArgumentError, CheckpointError
from whvi.io import canonical

FORMAT = "whvi checkpoint"
VERSION = 1
LIMIT = 64 << 20
"""Bytes that a manifest may have; large things belong in the tensors."""
_FIELDS = {"format": str, "version": int, "step": int, "tensors": dict, "state": dict, "sha256": str}
_TENSORS_FIELDS = {"file": str, "bytes": int, "sha256": str}
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Manifest(NamedTuple):
    """What the JSON of a checkpoint says: the step, the file of tensors with its size and checksum, and the state."""

    step: int
    file: str
    size: int
    sha256: str
    state: dict[str, Any]


def write(manifest: Manifest) -> bytes:
    """The manifest as canonical JSON, with the sha256 of all else in it under ``"sha256"``."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "step": manifest.step,
        "tensors": {"file": manifest.file, "bytes": manifest.size, "sha256": manifest.sha256},
        "state": manifest.state,
    }
    document["sha256"] = digest(canonical.dump(document, name="checkpoint"))
    text = canonical.dump(document)
    if len(text) > LIMIT:
        raise ArgumentError(f"state takes {len(text)} bytes of JSON, over {LIMIT}; put large parts into the tensors")
    return text


def read(path: Path, text: bytes) -> Manifest:
    """The manifest in the text of ``path``; raises a CheckpointError if it is invalid.

    Law: write(read(path, text)) == text, so no byte of it can differ unseen.
    """
    try:
        document = canonical.parse(text)
    except ArgumentError as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error
    _check_kind(path, document)
    _check_fields(path, document, _FIELDS)
    entry = document["tensors"]
    _check_fields(path, entry, _TENSORS_FIELDS)
    for sha256 in (document["sha256"], entry["sha256"]):
        if not _SHA256.fullmatch(sha256):
            raise CheckpointError(f"{path} must have a sha256 of 64 hexadecimal digits, got {sha256[:80]!r}")
    body = {key: value for key, value in document.items() if key != "sha256"}
    check_equal(path, "the sha256", digest(canonical.dump(body)), document["sha256"])
    return Manifest(document["step"], entry["file"], entry["bytes"], entry["sha256"], document["state"])


def check_equal(path: Path, what: str, found: object, wanted: object) -> None:
    """Raise the CheckpointError of a file in which something is not as it should be."""
    if type(found) is not type(wanted) or found != wanted:
        raise CheckpointError(f"{path} is damaged or of another origin: {what} must be {wanted!r}, got {found!r:.80}")


def digest(data: bytes) -> str:
    """The sha256 of data, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _check_kind(path: Path, document: Any) -> None:
    if not isinstance(document, dict):
        raise CheckpointError(f"{path} must hold a JSON object, got {type(document).__name__}")
    check_equal(path, "the format", document.get("format"), FORMAT)
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer whvi, in version {version}, but this one reads {VERSION} (upgrade whvi)"
        )
    check_equal(path, "the version", version, VERSION)


def _check_fields(path: Path, found: dict[str, Any], wanted: Mapping[str, type]) -> None:
    if found.keys() != wanted.keys():
        names = [", ".join(sorted(keys))[:200] or "nothing" for keys in (found, wanted)]
        raise CheckpointError(f"{path} must have the fields {names[1]}, got {names[0]}")
    for name, kind in wanted.items():
        if type(found[name]) is not kind:
            raise CheckpointError(
                f"{path} is damaged: {name} must be {kind.__name__}, got {type(found[name]).__name__}"
            )
