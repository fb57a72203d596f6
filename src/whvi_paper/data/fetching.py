"""Where the files of a dataset are, and how they get there."""

import hashlib
import os
from pathlib import Path

from whvi.errors import ArgumentError, WhviError
from whvi_paper.data.dataset import Dataset, File
from whvi_paper.data.table import Arrays


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
    except ModuleNotFoundError:  # of the package that reads it
        raise
    except Exception as error:  # a damaged file can make a parser fail in any way
        raise DataError(f"not the published file of {dataset.name}: {error}") from error
    return (x, y), digest


def fetch(dataset: Dataset) -> Path:
    """Download the published file into the cache, unless a good one is there.

    Law: what is in the cache is whole and was read once without complaint.
    """
    if dataset.simulator:
        raise ArgumentError(f"{dataset.name} is generated and cannot be fetched")
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
            path.unlink()  # pooch would keep it where its sha256 is not known
        else:
            return path
    from whvi_paper.data.downloading import download  # its packages are needed for this alone

    download(dataset, file, path)
    return path
