"""Prose has none of the terms of ``docs/words.txt``."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIST = ROOT / "docs/words.txt"
FOLDERS = {
    "docs": ("*.md",),
    "src": ("*.py", "*.html", "*.cpp", "*.h"),
    "examples": ("*.py", "*.md"),
    "benchmarks": ("*.py", "*.md"),
}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FILES = PAGES + [
    path for name, kinds in FOLDERS.items() for kind in kinds for path in sorted((ROOT / name).rglob(kind))
]


def terms() -> dict[str, str]:
    """Each term with what to write instead."""
    lines = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return {term: better for term, _, better in (line.partition(" -> ") for line in lines)}


def found(text: str) -> list[str]:
    """Uses of a term, also over the end of a line, as "line: term -> better"."""
    uses = []
    for term, better in terms().items():
        words = r"[\s#]+".join(map(re.escape, term.split()))
        for use in re.finditer(rf"\b{words}\b", text, flags=re.IGNORECASE):
            uses.append(f"{text.count(chr(10), 0, use.start()) + 1}: {term} -> {better}")
    return uses


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_terms_of_the_list_are_not_used(path: Path) -> None:
    assert not found(path.read_text())


def test_terms_are_seen_over_the_end_of_a_line() -> None:
    assert found("# a Predictive\n    # law, kept apartment") == ["1: predictive law -> predictive distribution"]
    assert all(terms().values())
