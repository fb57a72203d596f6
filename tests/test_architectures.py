"""Models of transformers, timm and plain torch: the laws of ``benchmarks/architectures.py`` hold for each."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.append(str(BENCHMARKS))
architectures: Any = importlib.import_module("architectures")


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize("way", ["adapt", "bayesianize"])
@pytest.mark.parametrize("name", architectures.CASES)
def test_architecture(name: str, way: str) -> None:
    case = architectures.CASES[name]
    pytest.importorskip(case.package, reason=f"{case.package} is not installed")
    given = architectures.made(case, way == "adapt")
    assert given.layers > 0
    for law in architectures.laws(case):
        architectures.CHECKS[law](case, given)


def test_a_broken_law_is_a_cell_of_the_table() -> None:
    """The record says what failed, and for which way."""
    case = architectures.CASES["DLRM"]._replace(output=lambda found: found * float("nan"))
    table = architectures.table({"architectures": {"DLRM": architectures.put_through(case)}})
    assert "adapt: " in table
    assert "bayesianize: " in table
    assert table.count("| yes |") == 1  # saved and loaded it is the same, whatever it is
