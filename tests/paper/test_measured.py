"""What exhibits that measure share."""

from math import isnan

import pytest
import torch

from whvi.errors import ArgumentError
from whvi_paper import measured


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


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'fast'"):
        measured.plan({"fast": 1}, "fast")
