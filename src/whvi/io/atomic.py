"""Atomic writes: a reader, or the next start after a crash, finds the old file or the new one, never a part."""

import os
import secrets
from pathlib import Path
from typing import Any

from whvi.io import canonical

TEMPORARY_SUFFIX = ".tmp"
"""How the name of an unfinished file ends; it starts with a dot and the name of the file that was to be written."""


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` atomically; missing folders are created.

    Law: after an error or an interrupt the old file is as it was and no temporary one is left; if the error came from
    the last step, the sync of the folder, the new file is there, whole. A kill can leave a temporary file behind.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_bytes(Path(folder, "new", "file"), b"whole")
    ...     Path(folder, "new", "file").read_bytes()
    b'whole'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, as a rename is atomic only within a file system; cut, as a name may have 255 bytes.
    temporary = path.with_name(f".{path.name[:32]}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # an interrupt must not leave it either
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """``write_bytes`` of the text in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """``write_bytes`` of the value as canonical JSON, which ``canonical.parse`` reads."""
    write_bytes(path, canonical.dump(value))


def sync_folder(folder: Path) -> None:
    """Wait until changes of names in a folder are on the disk; Windows does not support this."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
