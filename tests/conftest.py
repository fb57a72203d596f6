"""Fixtures that every test may use."""

import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

# A command in the background of a shell is deaf to Ctrl-C, which some tests send to themselves and to their children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    """Each test starts from the same seeds, so it does not depend on the tests before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (guards code that uses the global state)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of data sets named by WHVI_DATA; the test is skipped without it."""
    name = os.environ.get("WHVI_DATA")
    if not name:
        pytest.skip("WHVI_DATA is not set: no data sets")
    folder = Path(name)
    if not folder.is_dir():
        pytest.fail(f"WHVI_DATA names {folder}, which is not a folder")
    return folder
