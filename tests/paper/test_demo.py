"""The demo in miniature: it runs, and what it leaves behind can be read."""

from pathlib import Path

import pytest

from whvi_paper import demo


def test_demo_draws_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = demo.run(tmp_path / "new", profile="smoke", processes=1)
    assert picture == tmp_path / "new" / "demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "new" / "demo.html").read_text()
    assert "<svg" in page
    out = capsys.readouterr().out
    for text in ("G-WHVI", "NF-WHVI", "MFG", "MCD", "SGHMC", "1,541", "4,141", "distance", "demo.html"):
        assert text in out, text
    assert all(text in page for text in ("1,541", "4,141"))
