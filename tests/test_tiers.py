"""The default tier leaves out tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "tests/slow.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def names() -> set[str]:
    """Of all tests, the contracts that ship with the library among them."""
    files = (path for folder in ("tests", "src") for path in (ROOT / folder).rglob("*.py"))
    return {name for path in files for name in re.findall(r"def (test_\w+)\(", path.read_text())}


def test_the_list_is_in_order() -> None:
    assert sorted(set(LINES)) == LINES


@pytest.mark.parametrize("line", LINES)
def test_a_slow_test_exists(line: str, names: set[str]) -> None:
    """A line that is left of a test that was renamed would put the new one into the default tier."""
    assert re.fullmatch(r"test_\w+( first)?", line)
    assert line.partition(" ")[0] in names
