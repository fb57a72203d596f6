"""The cost of processes: parameters grow with the root of the number of features, and exponents are told."""

from pathlib import Path

import pytest

from whvi_paper.blocks import Table
from whvi_paper.exhibits import process_cost

MACHINE = {"processor": "a processor", "isa": "avx2", "backend": "native", "torch": "2.10", "cores": 1}


def test_parameters_grow_with_the_root(tmp_path: Path) -> None:
    inputs = [{"features": size, "rows": 2, "inputs": 3, "methods": ["whvi", "vi"], "rounds": 1} for size in (16, 64)]
    for one, results in zip(inputs, process_cost.measure(inputs, tmp_path, lambda share: None), strict=True):
        assert results["metrics"]["numbers"] == {"whvi": 4 * one["features"] ** 0.5, "vi": 2 * one["features"]}
        assert results["metrics"]["bytes"]["vi"] > 4 * 2 * one["features"]


def test_sizes_are_squares_of_powers_of_two() -> None:
    job, _ = process_cost.jobs("recipe")
    sizes = [one["features"] for one in job.inputs]
    assert (sizes[0], sizes[-1]) == (2**8, 2**16)
    assert all(size.bit_length() % 2 for size in sizes)


def test_exponents_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_cost, "draw", lambda lines: "")
    records = [
        {
            "name": f"{size}",
            "inputs": {"features": size, "rows": 64},
            "results": {
                "metrics": {
                    "machine": MACHINE,
                    "seconds": {"whvi": 1e-6 * size, "vi": 1e-6 * size**1.5},
                    "numbers": {"whvi": 4 * size**0.5, "vi": 2 * size},
                    "bytes": {"whvi": 100 * size, "vi": 100 * size},
                }
            },
        }
        for size in (256, 1024, 4096)
    ]
    table = process_cost.show(records).blocks[1]
    assert isinstance(table, Table)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["WHVI"][1:3] == ["0.50", "1.00"]
    assert rows["WHVI"][4:] == ["1.00", "256", "0.41", "4.10"]
    assert rows["variational features"][1:5] == ["1.00", "1.00", "O(F N + N)", "1.50"]


def test_inducing_points_have_their_own_exponents(tmp_path: Path) -> None:
    pytest.importorskip("gpytorch")
    inputs = [{"points": size, "rows": 3, "inputs": 2, "method": "svgp", "rounds": 1} for size in (2, 4)]
    for one, results in zip(inputs, process_cost.measure_points(inputs, tmp_path, lambda share: None), strict=True):
        assert results["metrics"]["numbers"] == {"svgp": 4 * one["points"]}  # two places, mean, standard deviation
        assert results["metrics"]["bytes"]["svgp"] > 8 * one["points"] ** 2  # the kernel matrix
    records = [
        {
            "name": f"{size}",
            "inputs": {"points": size, "rows": 64},
            "results": {
                "metrics": {
                    "machine": MACHINE,
                    "seconds": {"svgp": 1e-9 * size**3},
                    "numbers": {"svgp": 10 * size},
                    "bytes": {"svgp": 100 * size**2},
                }
            },
        }
        for size in (256, 512, 1024)
    ]
    exponents, steps = process_cost.show(records).blocks
    assert isinstance(exponents, Table)
    assert isinstance(steps, Table)
    assert [cell.text for cell in exponents.rows[0]] == ["inducing points", "O(M)", "1.00", "2.00", "O(M³)", "3.00"]
    assert [cell.text for cell in steps.rows[-1]] == ["1024", "10,240", "104.86", "1,073.74"]
