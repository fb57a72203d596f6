"""The page in a real browser: it is drawn, asks for nothing, fits a phone, and prints."""

import html
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whvi_paper.blocks import Shown
from whvi_paper.report import write_html

Browse = Callable[..., str]


def test_page_fits_a_phone_and_asks_for_nothing(
    shown: list[Shown], browse: Browse, measure_on_phone: Callable[[Path], Any], tmp_path: Path
) -> None:
    page = write_html(shown, tmp_path / "report.html")
    headings = re.findall(r"<h2>(.*?)</h2>", browse(page, "--dump-dom"))
    assert [html.unescape(text) for text in headings] == ["Contents", *(exhibit.title for exhibit in shown)]
    found = measure_on_phone(page)
    assert found.width <= found.window  # the page itself does not move sideways, with all details open
    assert found.scrolling >= 1  # a wide table does, in its own box
    assert found.requests == 0


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
