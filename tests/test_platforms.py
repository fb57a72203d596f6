"""Users of Windows and macOS: what can be simulated of their systems."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whvi

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "benchmarks", "results")
RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{number}" for name in ("com", "lpt") for number in range(10))}
"""Names that Windows keeps for devices, whatever follows a dot."""


@pytest.mark.parametrize("system", ["windows", "bare"])
def test_another_system_gets_the_fallback_and_no_traceback(system: str, tmp_path: Path) -> None:
    """No compiler, no kernel, no fork, other locks or none: one warning, and everything works."""
    source = Path(whvi.__file__).parent
    shutil.copytree(source, tmp_path / "whvi", ignore=shutil.ignore_patterns("_native*", "csrc", "__pycache__"))
    (tmp_path / "whvi/_no_native.txt").write_text("the kernel is not built on Windows yet\n")
    command = [sys.executable, str(ROOT / "tests/platforms.py"), system, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.stdout.endswith("works\n"), done
    assert "Traceback" not in done.stderr
    assert done.stderr.count("no native kernel was built: the kernel is not built on Windows yet") == 1


def test_no_two_files_differ_by_case_alone_and_all_names_are_allowed() -> None:
    """In the tree and in all that the library saves, for file systems that do not tell case apart."""
    paths = [path.relative_to(ROOT) for name in FOLDERS for path in (ROOT / name).rglob("*")]
    assert len(paths) > 500
    lower = [str(path).casefold() for path in paths]
    assert len(set(lower)) == len(lower)
    for path in paths:
        assert not re.search(r'[<>:"|?*\x00-\x1f\\]|[. ]$', path.name), path
        assert path.name.partition(".")[0].casefold() not in RESERVED, path
