"""What holds for all tests: the list of slow ones names tests that exist, and none returns early."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "tests/slow.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def tests() -> list[tuple[Path, ast.FunctionDef]]:
    """All of them, with those of the contracts that ship with the library."""
    files = [path for folder in ("tests", "src/whvi/testing") for path in (ROOT / folder).rglob("*.py")]
    nodes = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text()))]
    return [(path, f) for path, f in nodes if isinstance(f, ast.FunctionDef) and f.name.startswith("test_")]


def returns(node: ast.AST) -> Iterator[int]:
    """Lines of a function that return, but not those of functions in it."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Return):
            yield part.lineno
        elif not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from returns(part)


def test_no_test_returns_early(tests: list[tuple[Path, ast.FunctionDef]]) -> None:
    """One that does may have tested nothing: it skips with a reason, or is not made for that case."""
    assert [f"{path.relative_to(ROOT)}:{line}" for path, test in tests for line in returns(test)] == []


def test_the_list_of_slow_tests_is_in_order() -> None:
    assert sorted(set(LINES)) == LINES


def test_slow_tests_exist(tests: list[tuple[Path, ast.FunctionDef]]) -> None:
    """A line that is left of a test that was renamed would put the new one into the default tier."""
    names = {test.name for _, test in tests}
    assert [line for line in LINES if not re.fullmatch(r"test_\w+( first)?", line)] == []
    assert [line for line in LINES if line.partition(" ")[0] not in names] == []
