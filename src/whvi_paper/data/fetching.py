"""Where the files of a dataset are, and how they get there."""

import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from whvi.errors import ArgumentError, WhviError
from whvi.io import atomic
from whvi_paper.data.dataset import Dataset, File
from whvi_paper.data.table import Arrays

ATTEMPTS = 4
FIRST_WAIT = 1.0
"""Seconds after the first failure; twice as long after each further one."""
TIMEOUT = 30.0
"""Seconds without a byte."""
PIECE = 1 << 18
BUSY_ANSWERS = (408, 425, 429)
"""Among the answers below 500, those that may be another one later."""


class DataError(WhviError, OSError):
    """The file of a dataset is absent, damaged, or cannot be had."""


def data_folder() -> Path | None:
    """The folder of the user's own copies, ``WHVI_DATA``."""
    text = os.environ.get("WHVI_DATA")
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise ArgumentError(f"WHVI_DATA is {text!r}, which is not a folder; correct it, or unset it to use the cache")
    return folder


def cache_folder() -> Path:
    """The folder for what was downloaded: ``WHVI_CACHE``, else ``XDG_CACHE_HOME``/whvi, else ~/.cache/whvi."""
    if own := os.environ.get("WHVI_CACHE"):
        return Path(own).expanduser() / "data"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "whvi" / "data"


def find(dataset: Dataset) -> tuple[Path, File] | None:
    """The first file of the dataset that there is: in ``WHVI_DATA``, then in the cache."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder]
    copies = ((folder / file.name, file) for folder in folders for file in dataset.files)
    return next(((path, file) for path, file in copies if path.is_file()), None)


def read(dataset: Dataset, file: File, path: Path) -> tuple[Arrays, str]:
    """The arrays in a file and its sha256, checked."""
    try:
        return decode(dataset, file, path.read_bytes())
    except DataError as error:
        advice = "copy it again, or remove it"
        if path.is_relative_to(cache_folder()) and dataset.published:
            advice = f"replace it with: whvi datasets fetch {dataset.name}"
        raise DataError(f"{path}: {error}; {advice}") from error


def decode(dataset: Dataset, file: File, content: bytes) -> tuple[Arrays, str]:
    """The arrays in the bytes of a file and their sha256, checked."""
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 not in (None, digest):
        short = file.size is not None and len(content) < file.size
        cut = f"it ends after {len(content):,} of {file.size:,} bytes, " if short else ""
        raise DataError(f"not the published file of {dataset.name}: {cut}sha256 {digest}, wanted {file.sha256}")
    try:
        x, y = file.parse(content)
        dataset.check(x, y)
    except Exception as error:  # a damaged file can make a parser fail in any way
        raise DataError(f"not the published file of {dataset.name}: {error}") from error
    return (x, y), digest


def fetch(dataset: Dataset) -> Path:
    """Download the published file into the cache, unless a good one is there.

    Law: what is in the cache is whole and was read once without complaint.
    """
    if dataset.simulator:
        raise ArgumentError(f"{dataset.name} is computed, there is nothing to fetch")
    file = dataset.published
    if file is None or file.url is None:
        raise DataError(
            f"{dataset.name} is not published as a file; set WHVI_DATA to a folder with {dataset.files[0].name}"
        )
    path = cache_folder() / file.name
    if path.is_file():
        try:
            read(dataset, file, path)
        except DataError:
            pass  # replaced below
        else:
            return path
    content = download(file.url, file.name)
    try:
        decode(dataset, file, content)
    except DataError as error:
        raise DataError(f"{file.url}: {error}") from error
    atomic.write_bytes(path, content)
    return path


def download(url: str, name: str) -> bytes:
    """What is at an address; tried again after a failure that may pass."""
    wait = FIRST_WAIT
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return receive(url, name)
        except urllib.error.HTTPError as error:
            reason, final = f"{error.code} {error.reason}", error.code < 500 and error.code not in BUSY_ANSWERS
            error.close()
        except (OSError, http.client.HTTPException) as error:
            reason, final = str(error) or type(error).__name__, False
        if final or attempt == ATTEMPTS:
            break
        time.sleep(wait)
        wait *= 2
    raise DataError(
        f"{url} could not be downloaded ({reason}); put a copy named {name!r} into a folder and set WHVI_DATA to it"
    )


def receive(url: str, name: str) -> bytes:
    """One attempt, with a bar where there is a terminal to show it."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    request = urllib.request.Request(url, headers={"User-Agent": "whvi"})
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT) as answer,
        Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar,
    ):
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        task = bar.add_task(name, total=total)
        content = bytearray()
        while piece := answer.read(PIECE):
            content += piece
            bar.update(task, completed=len(content))
    if total not in (None, len(content)):
        raise OSError(f"it ended after {len(content)} of {total} bytes")
    return bytes(content)
