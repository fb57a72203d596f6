"""The benchmark and the demo in miniature: they run, and what they leave behind can be read."""

import json
from pathlib import Path

import pytest
import torch

import whvi
from whvi import demo
from whvi.bench import contenders, suite
from whvi.bench.timing import interleaved
from whvi.likelihoods import Gaussian


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


def test_demo_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "interleaved", lambda runs, **_: dict.fromkeys(runs, 1e-06))
    assert demo.run(tmp_path, steps=3).read_bytes().startswith(b"\x89PNG")


def test_demo_learns_and_doubts_where_there_is_no_data() -> None:
    torch.manual_seed(0)
    model, likelihood, (x, y) = demo.network(), Gaussian(), demo.data()
    assert sum(p.numel() for module in (model, likelihood) for p in module.parameters()) == 1541
    start, end = (demo.train(model, likelihood, x, y, steps).history.elbo[-1] for steps in (10, 600))
    assert end > start + 100
    places = torch.tensor([[-1.5], [-0.2], [1.0], [6.0]])
    spread = whvi.predict(model, places, 400, likelihood=likelihood, seed=0).epistemic.sqrt()
    assert spread[3] > 2 * max(spread[0], spread[2])
