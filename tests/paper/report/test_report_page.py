"""The page of HTML and the Markdown, without a browser."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import escape
from samples import NASTY, drawing, regression

from whvi import cli
from whvi.errors import ArgumentError
from whvi.page import check_svg, figure_svg
from whvi_paper import exhibits
from whvi_paper.blocks import Figure, Shown
from whvi_paper.report import markdown, write_html
from whvi_paper.report.page import page
from whvi_paper.report.summary import common_provenance, summary_table

VOID = {"meta", "br", "link", "img"}


class Tree(HTMLParser):
    """Elements in order, and a check that each is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_well_formed_and_holds_all_it_needs(shown: list[Shown], tmp_path: Path) -> None:
    text = write_html(shown, tmp_path / "new" / "report.html").read_text()
    assert text == page(shown)
    elements = Tree(text).elements
    names = [tag for tag, _ in elements]
    assert not {"link", "iframe", "img", "object", "base"} & set(names)
    assert names.count("script") == 1
    for _, attributes in elements:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"@import|@font-face|url\((?!#)", text)
    identifiers = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    targets = {attributes["href"] for tag, attributes in elements if tag == "a"}
    assert targets == {"#uci-regression", "#speed", "#script-alert-x-y-script"} <= {f"#{name}" for name in identifiers}
    assert {a["scope"] for tag, a in elements if tag == "th"} == {"row", "col"}
    assert names.count("caption") == names.count("table") == 3
    assert [a["aria-label"] for _, a in elements if a.get("class") == "drawing"] == ["Time grows with D."] * 2 + [NASTY]


def test_all_texts_are_escaped(shown: list[Shown]) -> None:
    text = page(shown)
    assert NASTY not in text
    assert text.count(str(escape(NASTY))) >= 14
    assert NASTY not in markdown(shown, None)


def test_provenance_of_every_number_is_in_the_page(shown: list[Shown]) -> None:
    text = page(shown)
    assert all(f"<code>{record}</code>" in text for entry in regression() for record in entry.records)
    assert "3 of the runs of this exhibit are missing" in text
    assert "5f" * 32 in text
    assert text.count("0.0932") == 2  # explained once, with the constant named twice


def test_summary_counts_all_exhibits(shown: list[Shown]) -> None:
    first, *_, last = [[cell.text for cell in row] for row in summary_table(shown).rows]
    numbers = ["–", "6 ▲, 6 ●, 4 ▼", "–", "16 ▲, 16 ●, 16 ▼", "–", "0 of 16", "–"]
    assert first[1:] == [*numbers, "–", "4", "5 h 20 min"]
    assert last == ["all", *numbers, "≤ 3", "≤ 4", first[-1]]


def test_summary_counts_the_numbers_of_those_printed_once_and_like_for_like(shown: list[Shown]) -> None:
    """Another exhibit prints one of the same numbers and one that was not run; the authors' metrics count apart."""
    some = shown[0].entries
    cells = [entry.cell for entry in some]
    worse = [replace(entry, metric="expected_nll", mean=9.0) for entry in some if entry.metric == "mnll"]
    whole = replace(shown[0], authors=worse, printed=cells)
    other = replace(shown[0], entries=[], printed=[cells[0], cells[0]._replace(width=512)])
    rows = [[cell.text for cell in row] for row in summary_table([whole, other]).rows]
    assert [row[1] for row in rows] == ["64 of 64", "0 of 2", "64 of 65"]
    assert rows[0][2:8] == ["6 ▲, 6 ●, 4 ▼", "0 ▲, 0 ●, 8 ▼", "16 ▲, 16 ●, 16 ▼", "0 ▲, 0 ●, 24 ▼", "0 of 16", "0 of 8"]
    assert rows[2][2:8] == rows[0][2:8]


def test_summary_of_all_counts_runs_that_exhibits_share_once_and_others_each(shown: list[Shown]) -> None:
    def last(changes: dict[str, object], order: int = 1, **others: object) -> list[str]:
        entries = [replace(entry, exhibit="other", **changes) for entry in shown[0].entries]
        other = replace(shown[0], entries=entries, **others)
        texts = [cell.text for cell in summary_table([shown[0], other][::order]).rows[-1]]
        return [texts[place] for place in (2, 4, 6, 8, 9, 10)]

    same = {"model": "another name, paper and all"}
    assert last(same) == last(same, -1) == ["6 ▲, 6 ●, 4 ▼", "16 ▲, 16 ●, 16 ▼", "0 of 16", "–", "≤ 8", "5 h 20 min"]
    assert last({"records": ()}, cpu_seconds={"a third": 19200.0}) == [
        "12 ▲, 12 ●, 8 ▼", "32 ▲, 32 ●, 32 ▼", "0 of 32", "–", "≤ 8", "10 h 40 min",
    ]  # fmt: skip


def test_summary_names_the_values_of_a_fact_or_counts_them() -> None:
    many = [Shown(str(day), "", "", "", [], provenance={"day": str(day), "torch": "2"}) for day in range(4)]
    assert common_provenance(many) == {"day": "4 values: see each exhibit", "torch": "2"}
    assert common_provenance(many[:2])["day"] == "0; 1"


def test_an_empty_report_is_a_report(tmp_path: Path) -> None:
    Tree(write_html([], tmp_path / "report.html").read_text())
    assert markdown([], None).startswith("# ")


def test_markdown_has_the_same_tables_and_its_figures_beside_it(shown: list[Shown], tmp_path: Path) -> None:
    text = markdown(shown, tmp_path / "pictures")
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("| ")]
    assert [len(lines) for lines in tables] == [2 + 4, 2 + 8, 2 + 1]
    for lines in tables:
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in lines}) == 1  # as many fields in every row
    assert "| boston | ▲ 0.30 (0.10)<br>paper 0.50 (0.20)<br>-1.0 std |" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures == ["pictures/speed-1.svg", "pictures/speed-2.svg", "pictures/script-alert-x-y-script-2.svg"]
    assert all(ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg") for name in pictures)
    assert "![" not in markdown(shown, None)


def test_equal_figures_give_equal_texts_and_others_share_no_id() -> None:
    first, again, other = (figure_svg(drawing(height)) for height in (1, 1, 2))
    assert first == again != other
    ids, others = (set(re.findall(r'id="([^"]+)"', text)) for text in (first, other))
    assert len(ids) >= 4
    assert not ids & others
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', first)) == {
        (name, "") if ("#" + name + '"') in first else ("", name) for name in ids
    }
    assert "Time against width</text>" in first  # a text, which can be searched and read aloud
    assert not re.search(r"<metadata|<style|<\?xml|<!DOCTYPE", first)
    assert check_svg(first) is first


@pytest.mark.parametrize(
    ("svg", "message"),
    [
        ("<svg", "must be an svg element"),
        ("<p>text</p>", "starts with '<p>text</p>'"),
        ("<?xml version='1.0'?><svg/>", "give an <svg> element"),
        ("<svg><script>x</script></svg>", "holds a <script>"),
        ("<svg><image href='https://example.org/a.png'/></svg>", "refers to 'https://example.org/a.png'"),
        ("<svg><g style='fill: url(\"//example.org/a\")'/></svg>", "refers to"),
    ],
)
def test_a_figure_that_is_not_a_drawing_is_refused(svg: str, message: str, tmp_path: Path) -> None:
    exhibit = Shown("a", "a", "a", "", [Figure("a", svg)])
    with pytest.raises(ArgumentError, match=re.escape(message)):
        write_html([exhibit], tmp_path / "report.html")
    assert not any(tmp_path.iterdir())


def test_commands(
    shown: list[Shown], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer import Typer

    from whvi_paper.report.commands import add_commands

    asked: list[tuple[Path, str]] = []
    monkeypatch.setattr(exhibits, "show_all", lambda *given: asked.append(given) or shown)
    monkeypatch.setattr(cli, "build_app", lambda: add_commands(app := Typer()) or app)
    out, text = tmp_path / "out" / "index.html", tmp_path / "docs" / "results.md"
    for arguments in (
        ("report", "--results", "kept", "--out", str(out), "--markdown", str(text)),
        ("results", "--json"),
        ("results", "--profile", "quick"),
    ):
        monkeypatch.setattr(sys, "argv", ["whvi", *arguments])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        assert not leaving.value.code
    assert asked == [(Path("kept"), "recipe"), (Path("results"), "recipe"), (Path("out/paper/records"), "quick")]
    assert out.read_text() == page(shown)
    assert "results/speed-1.svg" in text.read_text()
    assert (tmp_path / "docs" / "results" / "speed-1.svg").is_file()
    printed = capsys.readouterr().out
    assert f"report: {out}" in printed
    assert printed.count('{"exhibit": "uci-regression"') == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--results", "nowhere"], "nowhere has no records of the profile recipe; give their folder with --results"),
        (["--profile", "smoke"], "out/paper/records has no records of the profile smoke; "),
        (["--profile", "long"], "profile 'long' is unknown; use one of: recipe, paper, quick, smoke"),
    ],
)
@pytest.mark.parametrize("command", ["report", "results"])
def test_without_records_commands_say_so_in_one_line(
    command: str,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["whvi", command, *arguments])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"whvi: {words}")
    assert not any(tmp_path.iterdir())
