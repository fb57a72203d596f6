"""The benchmark in miniature: it runs, and what it leaves behind can be read."""

import json
import sys
from pathlib import Path

import pytest
import torch

from whvi_paper.bench import contenders, suite
from whvi_paper.bench.timing import interleaved


def test_contenders_compute_the_same() -> None:
    runs = contenders.transform(3, 64)
    expected = runs["whvi"]()
    for name, run in runs.items():
        if name != "clone":
            torch.testing.assert_close(run(), expected, rtol=1e-4, atol=1e-4)


def test_interleaved_orders_by_cost() -> None:
    x = torch.randn(300, 300)
    times = interleaved({"small": lambda: x[:1].sum(), "large": lambda: x @ x}, rounds=5, slice_ms=0.5)
    assert 0 < times["small"] < times["large"]


def test_exponent_of_a_power_law() -> None:
    rows = [{"size": 2**k, "batch": 3, "seconds": {"whvi": 3 * 1e-9 * 2 ** (1.1 * k)}} for k in range(6, 12)]
    assert suite.exponent(rows) == pytest.approx(1.1)


def test_bench_leaves_records_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "interleaved", lambda runs, rounds: dict.fromkeys(runs, 1e-06))
    suite.run(True, tmp_path / "out")
    records = json.loads((tmp_path / "out/bench.json").read_text())
    assert {row["size"] for row in records["transform"]} == {16, 256, 1024, 4096}
    assert records["machine"]["torch"] == torch.__version__
    assert (tmp_path / "out/bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_package_is_said_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match="matplotlib"):
        suite.run(True, tmp_path / "out")
    assert not (tmp_path / "out").exists()
