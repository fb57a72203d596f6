"""Energy counters: processors and not their parts, past the end of a counter, and none where there are none."""

from pathlib import Path

import pytest

from whvi_paper import energy

RANGE = 9_999_999


def counter(root: Path, name: str, microjoules: int) -> Path:
    folder = root / name
    folder.mkdir(exist_ok=True)
    (folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder


def test_processors_are_added_and_their_parts_are_not(tmp_path: Path) -> None:
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0", "dtpm"):
        counter(tmp_path, name, 1_000_000)

    def run() -> None:
        counter(tmp_path, "intel-rapl:0", 3_000_000)
        counter(tmp_path, "intel-rapl:1", 500_000)  # past its end
        counter(tmp_path, "intel-rapl:0:0", 2_000_000)

    assert energy.spend(run, tmp_path).joules == pytest.approx(2.0 + 9.5)


def test_without_counters_there_are_no_joules(tmp_path: Path) -> None:
    assert energy.spend(lambda: None, tmp_path).joules is None
    found = energy.in_turn({"a": lambda: None}, {"a": 2}, tmp_path)
    assert found["joules"] == {}
    assert found["seconds"].keys() == {"a"}


def test_a_counter_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    folder = counter(tmp_path, "intel-rapl:0", 1)
    (folder / "energy_uj").unlink()
    assert energy.read(tmp_path) == {}
    assert energy.joules({"intel-rapl:0": (1, RANGE)}, energy.read(tmp_path)) is None


def test_contenders_take_turns_and_medians_are_kept(tmp_path: Path) -> None:
    order: list[str] = []
    used = {"a": iter((1_000_000, 5_000_000, 2_000_000)), "b": iter((3_000_000,))}
    total = 0

    def run(name: str) -> None:
        nonlocal total
        order.append(name)
        total += next(used[name])
        counter(tmp_path, "intel-rapl:0", total % (RANGE + 1))

    counter(tmp_path, "intel-rapl:0", 0)
    found = energy.in_turn({"a": lambda: run("a"), "b": lambda: run("b")}, {"a": 3, "b": 1}, tmp_path)
    assert order == ["a", "b", "a", "a"]
    assert found["joules"] == pytest.approx({"a": 2.0, "b": 3.0})


def test_time_and_cpu_time_are_those_of_the_call() -> None:
    def work() -> None:
        sum(i * i for i in range(300_000))

    spent = energy.spend(work)
    assert 0.0 < spent.cpu_seconds <= spent.seconds + 0.02
