"""A native library is loaded only when it was built from the schemas and sources that are here."""

import re
from pathlib import Path

import pytest

import whvi
from whvi.ops import interface, native

CSRC = Path(whvi.__file__).parent / "csrc"


@pytest.fixture
def csrc(tmp_path: Path) -> Path:
    """A folder of sources."""
    folder = tmp_path / "csrc"
    folder.mkdir()
    for name in ("chain.h", "binding.cpp", "fuzz.cpp"):
        (folder / name).write_text(f"// {name}\n")
    return folder


def build(csrc: Path) -> bytes:
    """What stands for a library that is built now."""
    return b"\x7fELF" + "".join(interface.marks(csrc)).encode() + b"\0"


@pytest.mark.parametrize("name", ["chain.h", "binding.cpp"])
def test_library_of_other_sources_is_outdated(csrc: Path, name: str) -> None:
    library = build(csrc)
    assert not native.outdated(library, csrc)
    (csrc / name).write_text("// changed\n")
    assert native.outdated(library, csrc)
    assert not native.outdated(library, csrc / "left out")  # as in a frozen application


def test_only_what_is_compiled_into_the_library_counts(csrc: Path) -> None:
    library = build(csrc)
    (csrc / "fuzz.cpp").write_text("// changed\n")
    assert not native.outdated(library, csrc)


def test_library_of_other_schemas_is_outdated(csrc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build(csrc)
    monkeypatch.setitem(interface.SCHEMAS, "fwht", "(Tensor x, float scale, int more) -> Tensor")
    assert native.outdated(library, csrc)
    assert native.outdated(library, csrc / "left out")


def test_each_operator_of_the_library_has_a_schema() -> None:
    implemented = set(re.findall(r'm\.impl\("(\w+)"', (CSRC / "binding.cpp").read_text()))
    assert implemented == set(interface.SCHEMAS)
