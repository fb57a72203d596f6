"""The page of guarantees names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/guarantees.md").read_text()
ROWS = re.findall(r"^\| (?!Promise|---)(.+?) \| (.+?) \|$", PAGE, flags=re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """Names that pytest would take after the file: functions, classes, and methods of classes."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def test_there_are_promises() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("promise", "holders"), ROWS, ids=[promise[:40] for promise, _ in ROWS])
def test_promise_is_held_by_tests_that_exist(promise: str, holders: str) -> None:
    names = re.findall(r"`(.+?)`", holders)
    assert names, promise
    for name in names:
        file, _, test = name.partition("::")
        assert test.rpartition("::")[2].startswith("test_"), name
        assert test in names_in(ROOT / file), name
