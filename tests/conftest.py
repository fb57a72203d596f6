"""Fixtures that every test may use, and which tests the default tier leaves out."""

import os
import random
import re
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from whvi.inference.seeds import start_generators

# A command in the background of a shell is deaf to Ctrl-C, which some tests send to themselves and to their children.
signal.signal(signal.SIGINT, signal.default_int_handler)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE = 390
FRAME = f"""<!DOCTYPE html><pre></pre><iframe src="measured.html" width="{PHONE}" height="844" frameborder="0"></iframe>
<script>addEventListener('message', event => {{ document.querySelector('pre').textContent = event.data; }});</script>"""
"""A window of the browser cannot be as narrow as a phone, but a frame in it can."""
MEASURE = """
document.querySelectorAll('details').forEach(d => { d.open = true; });
const root = document.documentElement;
const wide = [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth);
const requests = performance.getEntriesByType('resource');
parent.postMessage([innerWidth, root.scrollWidth, wide.length, requests.length].join(' '), '*');
"""
Browse = Callable[..., str]

SLOW = dict(line.partition(" ")[::2] for line in (Path(__file__).parent / "slow.txt").read_text().splitlines())
"""Tests by the names of their functions, so that they keep their tier when they move; the word "first" or none."""


class OnPhone(NamedTuple):
    """What a browser saw of a page."""

    window: int
    width: int
    scrolling: int
    """Boxes that are wider inside than they show."""
    requests: int


if not torch.accelerator.is_available():  # torch.manual_seed would write the stack of calls down for each, each time
    for absent in (torch.cuda, torch.xpu, torch.mtia):
        absent.manual_seed_all = lambda seed: None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow. The default tier, ``make check``, is the rest; ``make test`` runs all and looks at no marks.

    Slow is what takes more than half a second of a processor: training to the end, graphs, other processes, browsers,
    many draws. Where one case is enough for a first look, "first" in the list leaves the first of each file.
    """
    seen = set()
    for item in items:
        name = getattr(item, "originalname", item.name)
        if name in SLOW and (SLOW[name] != "first" or (item.path, name) in seen):
            item.add_marker(pytest.mark.slow)
        seen.add((item.path, name))


@pytest.fixture(autouse=True)
def _fixed_seeds() -> None:
    """Each test starts from the same seeds, so it does not depend on the tests before it."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (guards code that uses the global state)
    start_generators(0)


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


def with_script(page: str, script: str) -> str:
    """A page that runs this script at its end, too, by leave of its content security policy."""
    leave = b64encode(sha256(script.encode()).digest()).decode()
    assert page.count("script-src ") == page.count("</body>") == 1
    allowed = page.replace("script-src ", f"script-src 'sha256-{leave}' ")
    return allowed.replace("</body>", f"<script>{script}</script></body>")


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Chromium with the given arguments, in a new profile and without any network; what it prints."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install the package chromium")
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    offline = ("--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking", "--virtual-time-budget=2000")

    def run(page: Path, *arguments: str) -> str:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [program, *fixed, *offline, profile, *arguments, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout

    return run


@pytest.fixture
def measure_on_phone(browse: Browse, tmp_path: Path) -> Callable[[Path], OnPhone]:
    """A page in a window as narrow as a phone's, with all details open."""

    def measure(page: Path) -> OnPhone:
        (tmp_path / "measured.html").write_text(with_script(page.read_text(), MEASURE))
        (tmp_path / "frame.html").write_text(FRAME)
        found = re.search(r"<pre>(\d+) (\d+) (\d+) (\d+)</pre>", browse(tmp_path / "frame.html", "--dump-dom"))
        assert found, "the script did not run"
        seen = OnPhone(*map(int, found.groups()))
        assert seen.window == PHONE
        return seen

    return measure
