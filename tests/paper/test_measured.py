"""What exhibits that measure share."""

from functools import partial
from math import isnan

import pytest
import torch

from whvi.errors import ArgumentError
from whvi_paper import measured
from whvi_paper.bench.timing import WARM_UP


def record(size: int, seconds: dict[str, float]) -> dict[str, object]:
    machine = {"processor": "a processor", "isa": "avx2", "backend": "native", "torch": "2.10", "cores": 1}
    return {"inputs": {"size": size}, "results": {"metrics": {"seconds": seconds, "machine": machine}}}


def test_exponent_is_that_of_the_largest_sizes() -> None:
    overhead = [(size, 1000.0) for size in (2, 4, 8)]
    assert measured.exponent([*overhead, *((2**k, 3.0 * 2 ** (2.5 * k)) for k in range(4, 8))]) == pytest.approx(2.5)
    assert isnan(measured.exponent([(8, 1.0)]))


def test_points_are_in_order_and_may_be_fewer_for_some() -> None:
    records = [record(16, {"a": 3.0}), record(4, {"a": 1.0, "b": 2.0})]
    assert measured.points(records, "size", "seconds") == {"a": [(4, 1.0), (16, 3.0)], "b": [(4, 2.0)]}


def test_machines_are_named_once() -> None:
    assert measured.where([record(4, {}), record(8, {})]) == (
        "Measured on a processor (avx2) with torch 2.10, threads: 1."
    )


def test_times_are_taken_on_one_thread() -> None:
    threads, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        metrics = measured.timed({"one": lambda: seen.add(torch.get_num_threads())}, rounds=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == {1}
    assert metrics["machine"]["cores"] == 1
    assert metrics["seconds"]["one"] > 0


def test_every_repetition_is_kept_and_the_box_is_of_them() -> None:
    calls: list[str] = []
    ways = {name: partial(calls.append, name) for name in ("one", "other")}
    found = measured.distributions(ways, 5)
    assert calls == ["one", "other"] * (WARM_UP + 5)
    assert {name: len(times) for name, times in found["times"].items()} == {"one": 5, "other": 5}
    for name, times in found["times"].items():
        assert found["metrics"]["seconds"][name] == pytest.approx(measured.box(times)["med"], rel=1e-3)
    box = measured.box([float(value) for value in range(101)])
    assert box == pytest.approx({"whislo": 5.0, "q1": 25.0, "med": 50.0, "q3": 75.0, "whishi": 95.0})


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'fast'"):
        measured.plan({"fast": 1}, "fast")
