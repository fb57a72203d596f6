"""The published file of a dataset, downloaded by pooch: under its name only when it is whole and was read."""

import logging
import sys
from functools import partial
from pathlib import Path
from typing import IO

import pooch
import requests

from whvi_paper.data.dataset import Dataset, File
from whvi_paper.data.fetching import DataError, decode

ATTEMPTS = 4
TIMEOUT = 30.0
"""Seconds without a byte."""
MOST = 1 << 28
"""Bytes of a file; the largest of the catalogue has 170 MB."""
BUSY_ANSWERS = (408, 425, 429)
"""Among the answers below 500, those that may be another one later."""
pooch.get_logger().setLevel(logging.WARNING)  # commands print what they did, and nothing else


def download(dataset: Dataset, file: File, path: Path) -> None:
    """Download a file that is not there yet; DataError, and nothing at ``path``, if that cannot be."""
    registry = pooch.create(
        path.parent, base_url="", registry={file.name: file.sha256}, urls={file.name: file.url},
        retry_if_failed=ATTEMPTS - 1,
    )  # fmt: skip
    try:
        registry.fetch(file.name, downloader=partial(receive, dataset, file))
    except requests.RequestException as error:
        raise unavailable(file, error) from error


class Limited:
    """A file that takes no more than so many bytes, whatever the other side sends."""

    def __init__(self, file: IO[bytes], most: int, url: str) -> None:
        self.file, self.left, self.url = file, most, url

    def write(self, piece: bytes) -> int:
        """Write a piece; DataError where that is too much."""
        self.left -= len(piece)
        if self.left < 0:
            raise DataError(
                f"{self.url} sends more than the expected size of the file; download it yourself if that is right"
            )
        return self.file.write(piece)

    def flush(self) -> None:
        """Hand on what is buffered."""
        self.file.flush()


def receive(dataset: Dataset, file: File, url: str, path: str, _registry: object) -> None:
    """One attempt, with a bar where there is a terminal to show it.

    pooch tries again after a ``RequestException``. What no further attempt would change is a ``DataError``: an answer
    such as 404, or a file that is not the published one, which is found out here, before pooch gives it its name.
    """
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT, headers={"User-Agent": "whvi"})
    try:
        with Path(path).open("wb") as whole:
            get(url, Limited(whole, file.size or MOST, url), None)
    except requests.HTTPError as error:
        answer = error.response
        assert answer is not None
        answer.close()  # pooch leaves the connection open
        if answer.status_code >= 500 or answer.status_code in BUSY_ANSWERS:
            raise
        raise unavailable(file, error) from error
    try:
        decode(dataset, file, Path(path).read_bytes())
    except DataError as error:
        raise DataError(f"{url}: {error}") from error


def unavailable(file: File, error: Exception) -> DataError:
    """What to do where a download fails."""
    return DataError(
        f"{file.url} could not be downloaded ({error}); put a copy named {file.name!r} into a folder and set WHVI_DATA "
        "to it"
    )
