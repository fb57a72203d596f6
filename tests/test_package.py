"""The package as a whole: version, typing marker, light imports, documented dependencies, errors."""

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import whvi
from whvi import errors

ROOT = Path(__file__).parent.parent
HEAVY = ["tensorboard", "matplotlib", "pandas", "sklearn", "scipy", "typer", "rich", "triton"]
HEAVY += ["jinja2", "whvi_paper", "whvi_tables"]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_version_has_one_home() -> None:
    version = project()["version"]
    assert whvi.__version__ == version == metadata.version("whvi")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("package", ["whvi", "whvi_paper", "whvi_tables"])
def test_package_is_typed(package: str) -> None:
    assert resources.files(package).joinpath("py.typed").is_file()


def test_core_import_loads_no_extra() -> None:
    code = f"import sys, whvi; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_dependency_has_its_reason() -> None:
    facts = project()
    groups = {"core": facts["dependencies"], **facts["optional-dependencies"]}
    wanted = {(re.match(r"[\w-]+", line)[0], extra) for extra, lines in groups.items() for line in lines}
    rows = re.findall(r"^\| ([\w-]+) \| ([\w-]+) \|", (ROOT / "docs/dependencies.md").read_text(), flags=re.MULTILINE)
    assert set(rows) - {("Package", "Extra"), ("---", "---")} == wanted


OTHER_NAMES = {"sklearn": "scikit-learn", "python_calamine": "python-calamine", "distributed": "dask"}
"""Of packages that are imported by another name than they are installed by."""
PARTS = {"markupsafe": "jinja2", "cycler": "matplotlib"}
"""Packages of whose interface others are a part."""


def test_every_package_that_is_imported_is_listed() -> None:
    facts = project()
    lines = chain(facts["dependencies"], *facts["optional-dependencies"].values())
    listed = {re.match(r"[\w-]+", line)[0] for line in lines}  # type: ignore[index]
    own = {"whvi", "whvi_paper", "whvi_tables"} | sys.stdlib_module_names
    nodes = [
        node for path in (ROOT / "src").rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.split(".")[0] for name in imported} - own
    assert {PARTS.get(name, OTHER_NAMES.get(name, name)) for name in packages} - listed == set()


def test_requirements_name_the_floors_that_the_build_assumes() -> None:
    build = (ROOT / "setup.py").read_text()
    assert "torch>=2.10" in project()["dependencies"]
    assert "TORCH_TARGET_VERSION=0x020a" in build
    assert project()["requires-python"] == ">=3.11"
    assert "Py_LIMITED_API=0x030b" in build
    assert '"cp311"' in build


@pytest.mark.parametrize(
    ("page", "command"),
    [
        ("docs/transform.md", ["targets.py"]),
        ("docs/transform.md", ["orders.py", "--table"]),
        ("docs/layers.md", ["layers.py", "--table"]),
        ("docs/layers.md", ["terms.py", "--table"]),
        ("docs/inference.md", ["prediction.py", "--table"]),
        ("docs/inference.md", ["replicas.py", "--table"]),
        ("docs/architecture.md", ["operators.py", "--table"]),
        ("docs/inference.md", ["compiled.py", "--table"]),
        ("docs/recipe.md", ["recipe.py", "--table"]),
        ("docs/adapters.md", ["adapters.py", "--table"]),
        ("docs/convert.md", ["adapters.py", "--ways"]),
        ("docs/architectures.md", ["architectures.py", "--table"]),
        ("docs/adapters.md", ["language.py", "--table"]),
        ("docs/estimators.md", ["estimators.py", "--table"]),
        ("docs/tutorials/active-learning.md", ["active_learning.py", "--table"]),
    ],
)
def test_published_speed_is_that_of_the_record(
    page: str, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # as a script has it
    runpy.run_path(str(ROOT / "benchmarks" / command[0]), run_name="__main__")
    table = capsys.readouterr().out.strip()
    assert table.count("\n") > 1
    assert table in (ROOT / page).read_text()


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.DtypeError, TypeError),
        (errors.DeviceError, ValueError),
        (errors.ArgumentError, ValueError),
        (errors.InputTypeError, TypeError),
        (errors.UnsupportedError, RuntimeError),
        (errors.MissingPackageError, ModuleNotFoundError),
        (errors.CheckpointError, ValueError),
        (errors.DivergenceError, ArithmeticError),
    ],
)
def test_errors_are_also_builtin(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, whvi.WhviError)
    assert issubclass(error, builtin)


def test_release_facts_agree() -> None:
    """What the workflow of a release checks: the tag, the version, the citation and the changelog."""
    problems = runpy.run_path(str(ROOT / ".github/release.py"))["problems"]
    version = project()["version"]
    assert problems(None) == problems(f"v{version}") == []
    (wrong,) = problems("v99.0.0")
    assert f"tag v{version}" in wrong
