"""The page in a real browser: it is drawn, asks for nothing, fits a phone, and prints."""

import html
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from whvi_paper.blocks import Shown
from whvi_paper.report import write_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE = 390
FRAME = f"""<!DOCTYPE html><pre></pre><iframe src="measured.html" width="{PHONE}" height="844" frameborder="0"></iframe>
<script>addEventListener('message', event => {{ document.querySelector('pre').textContent = event.data; }});</script>"""
"""A window of the browser cannot be as narrow as a phone, but a frame in it can."""
MEASURE = """<script>
document.querySelectorAll('details').forEach(d => { d.open = true; });
const root = document.documentElement;
const wide = [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth);
const requests = performance.getEntriesByType('resource');
parent.postMessage([innerWidth, root.scrollWidth, wide.length, requests.length].join(' '), '*');
</script></body>"""
Browse = Callable[..., str]


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


def test_page_fits_a_phone_and_asks_for_nothing(shown: list[Shown], browse: Browse, tmp_path: Path) -> None:
    page = write_html(shown, tmp_path / "report.html")
    headings = re.findall(r"<h2>(.*?)</h2>", browse(page, "--dump-dom"))
    assert [html.unescape(text) for text in headings] == ["Contents", *(exhibit.title for exhibit in shown)]
    (tmp_path / "measured.html").write_text(page.read_text().replace("</body>", MEASURE))
    (tmp_path / "frame.html").write_text(FRAME)
    found = re.search(r"<pre>(\d+) (\d+) (\d+) (\d+)</pre>", browse(tmp_path / "frame.html", "--dump-dom"))
    assert found, "the script did not run"
    window, width, scrolling, requests = map(int, found.groups())
    assert window == PHONE
    assert width <= PHONE  # the page itself does not move sideways, with all details open
    assert scrolling >= 1  # a wide table does, in its own box
    assert requests == 0


def test_page_has_a_picture(shown: list[Shown], browse: Browse, tmp_path: Path) -> None:
    page, picture = write_html(shown, tmp_path / "report.html"), tmp_path / "picture.png"
    browse(page, f"--screenshot={picture}", "--window-size=1280,2000")
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1280, 2000)
    assert len(data) > 100_000  # an empty page of that size has about 10,000 bytes


def test_print_holds_the_notes(shown: list[Shown], browse: Browse, tmp_path: Path) -> None:
    text = write_html(shown, tmp_path / "closed.html").read_text()
    (tmp_path / "open.html").write_text(text.replace("<details", "<details open"))
    sizes = []
    for name in ("closed", "open"):
        printed = tmp_path / f"{name}.pdf"
        browse(tmp_path / f"{name}.html", f"--print-to-pdf={printed}", "--no-pdf-header-footer")
        data = printed.read_bytes()
        assert data.startswith(b"%PDF-")
        sizes.append((len(re.findall(rb"/Type\s*/Page\b", data)), len(data)))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)
