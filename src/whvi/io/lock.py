"""Locks of a folder, or of a place for a folder, for a ``with`` block."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import monotonic, sleep

from whvi.errors import CheckpointError

PATIENCE = 60.0
"""Seconds that a writer waits for another one, which needs no more than it takes to write its files."""
_PAUSE = 0.01


@contextmanager
def alone(folder: str | os.PathLike[str], *, wait: bool | float = False) -> Iterator[None]:
    """Lock a folder, created if missing, for a ``with`` block.

    If another process holds it, wait for that one (True, or seconds), or else raise a CheckpointError. The system lets
    go of it when the process ends, however that comes about. Where it cannot hold a folder, as on some network file
    systems, nobody is kept out. On Windows a file ``.lock`` in the folder is held.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder} must be a folder that can be used ({error.strerror})") from error
    if os.name == "nt":
        with _opened(folder / ".lock") as descriptor:
            _wait(lambda: _locked(descriptor), wait, folder)
            yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _wait(lambda: _locked(descriptor), wait, folder)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def turn(place: Path, *, wait: bool | float = PATIENCE) -> Iterator[None]:
    """Hold a place, whether something stands there or not, by a hidden file beside it that is removed again."""
    beside = place.with_name(f".{place.name[:64]}.lock")
    end = monotonic() + _seconds(wait)
    while True:
        with _opened(beside) as descriptor:
            _wait(lambda: _locked(descriptor), end - monotonic(), place)
            if not _is(descriptor, beside):  # who held it before has removed it: another one may hold the new file
                continue
            try:
                yield
            finally:
                with suppress(OSError):  # Windows does not remove what is open; an empty file does no harm
                    beside.unlink()
            return


def _wait(attempt: Callable[[], bool], wait: bool | float, what: Path) -> None:
    end = monotonic() + _seconds(wait)
    while not attempt():
        if monotonic() >= end:
            raise CheckpointError(f"another run is using {what}; wait until it ends, or choose another folder")
        sleep(_PAUSE)


def _seconds(wait: bool | float) -> float:
    return {True: inf, False: 0.0}[wait] if isinstance(wait, bool) else wait


def _locked(descriptor: int) -> bool:
    """Try to lock what is open; True also where the system has no locks, which is no reason not to work there."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return _locked_on_windows(descriptor)
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # NFS and others have no locks, or none for folders
        pass
    return True


def _locked_on_windows(descriptor: int) -> bool:
    try:
        import msvcrt
    except ImportError:
        return True
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is(descriptor: int, path: Path) -> bool:
    """Whether what is open is still what has the name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
