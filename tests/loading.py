"""Scripts of ``benchmarks/`` as modules: tests run them in miniature."""

import importlib.util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "benchmarks"


def benchmark(name: str) -> ModuleType:
    """The script of that name."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
