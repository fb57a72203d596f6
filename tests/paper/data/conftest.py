"""A small dataset, folders of its own, and a server that publishes it."""

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_server import CONTENT, Server

from whvi_paper.data.catalogue import DATASETS
from whvi_paper.data.dataset import Dataset


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this test, and no WHVI_DATA; failures are not waited for, and no proxy is asked."""
    monkeypatch.setenv("WHVI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WHVI_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    return tmp_path / "cache" / "data"


@pytest.fixture
def yacht(cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """yacht with two rows, published by the server."""
    own, published = DATASETS["yacht"].files
    published = dataclasses.replace(published, sha256=hashlib.sha256(CONTENT).hexdigest(), url=server.url)
    small = dataclasses.replace(DATASETS["yacht"], rows=2, files=(own, published))
    monkeypatch.setitem(DATASETS, "yacht", small)
    return small
