"""Pages of reports: what a template may show, and what a browser may do with it."""

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import unescape
from pathlib import Path

import jinja2
import pytest
from matplotlib.figure import Figure

from whvi.errors import ArgumentError
from whvi.page import check_svg, figure_svg, render

EVIL = "<script>document.title = 'ran'</script>"
PAGE = """{% extends "page.html" %}{% from "parts.html" import drawing, facts, table %}
{% block body %}{{ text }}{{ facts(text, {text: text}) }}{{ drawing(svg, text) }}
{% call table(text, [text], {text: "left"}) %}<tr><th>{{ text }}</th></tr>{% endcall %}{% endblock %}"""


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template.html"
    path.write_text(PAGE)
    return path


def test_texts_are_escaped_and_drawings_are_checked(template: Path) -> None:
    page = render(template, title=EVIL, text=EVIL, svg="<svg/>")
    assert EVIL not in page
    assert page.count("&lt;script&gt;") == 10
    assert "<svg/>" in page
    with pytest.raises(ArgumentError, match="holds a <script>"):
        render(template, title="", text="", svg=f"<svg>{EVIL}</svg>")
    with pytest.raises(jinja2.UndefinedError, match="'text' is undefined"):
        render(template, title="", svg="<svg/>")


def test_a_label_with_control_characters_can_be_drawn() -> None:
    figure = Figure(figsize=(2, 1))
    figure.subplots().set_title("a\x00\x1b[31m\ufffe é")
    drawing = figure_svg(figure)
    assert check_svg(drawing) == drawing
    assert "a\ufffd\ufffd[31m\ufffd é" in drawing


def allowance(script: str) -> str:
    """As a content security policy names a script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def test_policy_names_the_one_script(template: Path) -> None:
    page = render(template, title="", text="", svg="<svg/>")
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert unescape(policy).startswith("default-src 'none';")
    assert f"; script-src {allowance(script)};" in unescape(policy)


def test_browser_runs_that_script_and_no_other(template: Path, browse: Callable[..., str], tmp_path: Path) -> None:
    page, path = render(template, title="page", text="a", svg="<svg/>"), tmp_path / "page.html"
    path.write_text(page.replace("</body>", f"{EVIL}</body>"))
    found = browse(path, "--dump-dom")
    assert "<title>page</title>" in found
    assert "<details>" in found
    printing = "dispatchEvent(new Event('beforeprint'));"
    allowed = page.replace("script-src ", f"script-src {allowance(printing)} ")
    path.write_text(allowed.replace("</body>", f"<script>{printing}</script></body>"))
    assert '<details open="">' in browse(path, "--dump-dom")  # by the page's own script
