"""What earlier versions saved is read, and gives what it gave; folders of 0.1 are in tests of their own."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from saved import KINDS, STEPS, run
from write_golden import ALL, EXPECTED, GOLDEN, write

RELEASES = sorted(path.name for path in GOLDEN.iterdir())
FOLDERS = [(release, name) for release in RELEASES for name in ALL if (GOLDEN / release / name).is_dir()]


def expected(release: str, name: str) -> Any:
    return json.loads((GOLDEN / release / EXPECTED).read_text())[name]


def test_all_kinds_are_there() -> None:
    assert set(FOLDERS) >= {(RELEASES[-1], name) for name in ALL}


@pytest.mark.parametrize(("release", "name"), FOLDERS)
def test_a_folder_of_an_earlier_version_gives_what_it_gave(release: str, name: str, tmp_path: Path) -> None:
    """Up to rounding: torch and the processor may be others."""
    shutil.copytree(GOLDEN / release / name, tmp_path / name)
    found = np.asarray(ALL[name].predict(ALL[name].load(tmp_path / name)), float)
    assert_allclose(found, expected(release, name), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("release", RELEASES)
def test_a_run_of_an_earlier_version_goes_on(release: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / release / "run", tmp_path / "run")
    model = run(tmp_path / "run", 2 * STEPS)
    assert_allclose(KINDS["run"].predict(model), expected(release, "longer"), rtol=1e-3, atol=1e-5)


def test_this_version_writes_them_too(tmp_path: Path) -> None:
    write(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {*ALL, EXPECTED}
