"""Each script of ``examples/`` runs in miniature and leaves its picture or table; the notebooks are the scripts."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LINES = 60
CELL = re.compile(r"^# %%.*\n", flags=re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_leaves_its_result(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--quick"])
    runpy.run_path(str(script), run_name="__main__")
    found = list((tmp_path / "out/examples").iterdir())
    assert [path.stem for path in found] == [script.stem]
    assert found[0].stat().st_size > 100


def test_examples_are_short_and_listed() -> None:
    listed = (FOLDER / "README.md").read_text()
    for script in SCRIPTS:
        assert len(script.read_text().splitlines()) < LINES, script
        assert f"[{script.name}]({script.name})" in listed
    assert len(SCRIPTS) == 8


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_its_script_with_output(notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in cells)
    source = "\n".join("".join(cell["source"]) for cell in cells)
    script = CELL.sub("", notebook.with_suffix(".py").read_text())
    assert [line for line in source.splitlines() if line and not line.startswith("# %%")] == [
        line for line in script.splitlines() if line
    ]
