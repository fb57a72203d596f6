"""Records on disk: what was kept comes back, and nothing else does."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small_jobs import double

from whvi.errors import ArgumentError, InputTypeError
from whvi_paper import store as module
from whvi_paper.jobs import Inputs, Job
from whvi_paper.store import Store, check_results, name_of, read, versions

INPUTS: tuple[Inputs, ...] = tuple({"number": number, "rate": 0.1} for number in range(3))
JOB = Job("small", "three", INPUTS, double)
RESULTS = [{"metrics": {"rmse": 0.1 + number, "curve": [[0, 1e-300]]}, "parameters": number} for number in range(3)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_names_are_those_of_earlier_records() -> None:
    assert name_of({"seed": 0, "width": 64, "configuration": {"rate": 0.01}}) == "b78cf2c176fac1a6"


@pytest.mark.parametrize("other", [{"a": 1, "b": 3}, {"a": 1}, {"a": 1, "b": "2"}, {"a": 1, "b": 2, "c": None}])
def test_equal_inputs_have_equal_names_and_others_have_others(other: dict[str, Any]) -> None:
    assert name_of({"a": 1, "b": 2}) == name_of({"b": 2, "a": 1}) != name_of(other)


def test_what_was_kept_comes_back(store: Store) -> None:
    store.keep(JOB, INPUTS[:2], RESULTS[:2], wall=6.0, cpu=4.0)
    assert store.missing(JOB) == [INPUTS[2]]
    found = store.records([JOB])
    assert [record["inputs"] for record in found] == list(INPUTS[:2])
    assert [record["results"] for record in found] == RESULTS[:2]
    for record in found:
        assert (record["status"], record["exhibit"], record["failures"]) == ("done", "small", 0)
        assert (record["wall_seconds"], record["cpu_seconds"]) == (3.0, 2.0)
        assert record["versions"] == versions()
        assert record["versions"]["torch"] == torch.__version__
        assert record["name"] == name_of(record["inputs"])


def test_exhibits_do_not_share_records(store: Store) -> None:
    store.keep(JOB, INPUTS, RESULTS, wall=1.0, cpu=1.0)
    assert store.missing(Job("other", "three", INPUTS, double)) == list(INPUTS)


def test_failures_are_kept_and_counted(store: Store) -> None:
    store.keep_failure(JOB, INPUTS[:1], "failed", "the reason")
    store.keep_failure(JOB, INPUTS[:2], "cancelled", "interrupted")
    assert store.missing(JOB) == list(INPUTS)
    assert store.failures("small") == {name_of(INPUTS[0]): 2, name_of(INPUTS[1]): 1}
    lines = [json.loads(line) for line in store.failed_path("small").read_text().splitlines()]
    assert [line["status"] for line in lines if line["name"] == name_of(INPUTS[0])] == ["failed", "cancelled"]
    first, other = Job("small", "one", INPUTS[:1], double), Job("other", "three", INPUTS, double)
    assert [store.failed(jobs) for jobs in ([JOB], [first], [JOB, first], [other], [])] == [3, 2, 3, 0, 0]
    store.keep(JOB, INPUTS, RESULTS, wall=1.0, cpu=1.0)
    assert [record["failures"] for record in store.records([JOB])] == [2, 1, 0]
    assert store.failed([JOB]) == 3


DAMAGED = {
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "a list": lambda text: "[]",
    "not text": lambda text: text.replace("small", "\udcff"),
    "other inputs": lambda text: text.replace('"number": 0', '"number": 7'),
    "other name": lambda text: text.replace('"name": "', '"name": "0'),
    "no results": lambda text: text.replace('"results"', '"result"'),
    "merge of versions": lambda text: f"<<<<<<< ours\n{text}",
    "twice": lambda text: f"{text}\n{text}",
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_record_is_an_error_that_names_the_line(store: Store, damage: Any) -> None:
    """And the others can be kept all the same, so that no result is lost."""
    store.keep(JOB, INPUTS[:2], RESULTS[:2], wall=1.0, cpu=1.0)
    path = store.path("small")
    first = next(i for i, line in enumerate(path.read_text().splitlines()) if name_of(INPUTS[0]) in line)
    lines = path.read_text().splitlines()
    lines[first] = damage(lines[first])
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
    for look in (lambda: read(path), lambda: store.missing(JOB), lambda: store.records([JOB])):
        with pytest.raises(ArgumentError, match="delete it to compute it again") as error:
            look()
        assert re.search(rf"line [123] of {path} ", str(error.value))
    store.keep(JOB, INPUTS[2:], RESULTS[2:], wall=1.0, cpu=1.0)
    good = [line for line in path.read_bytes().splitlines() if is_record(line)]
    path.write_bytes(b"".join(line + b"\n" for line in dict.fromkeys(good)))
    missing = [] if len(set(good)) == 3 else [INPUTS[0]]
    assert store.missing(JOB) == missing


def is_record(line: bytes) -> bool:
    try:
        record = json.loads(line)
        return record["name"] == name_of(record["inputs"]) and "results" in record
    except (KeyError, TypeError, ValueError):
        return False


def test_lines_are_in_the_order_of_names_and_each_name_is_there_once(store: Store) -> None:
    for one, result in reversed(list(zip(INPUTS, RESULTS, strict=True))):
        store.keep(JOB, [one], [{"metrics": {}}], wall=1.0, cpu=1.0)
        store.keep(JOB, [one], [result], wall=1.0, cpu=1.0)
    names = [json.loads(line)["name"] for line in store.path("small").read_text().splitlines()]
    assert names == sorted(map(name_of, INPUTS))
    assert [record["results"] for record in store.records([JOB])] == RESULTS


WRITER = """
import sys
from pathlib import Path
from whvi_paper.jobs import Job
from whvi_paper.store import Store

store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 60, 2):
    inputs = ({"number": number},)
    store.keep(Job("small", "", inputs, None), inputs, [{"metrics": {}}], 1.0, 1.0)
    store.keep_failure(Job("small", "", inputs, None), inputs, "failed", "the reason")
"""


def test_two_processes_lose_no_record(store: Store) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder), str(first)]) for first in (0, 1)]
    assert [writer.wait() for writer in writers] == [0, 0]
    everything = Job("small", "", tuple({"number": number} for number in range(60)), double)
    assert store.missing(everything) == []
    assert store.failed([everything]) == 60
    assert sorted(path.name for path in store.folder.rglob("*") if path.is_file()) == ["small.jsonl"] * 2


def test_a_file_for_each_record_is_refused(store: Store) -> None:
    (store.folder / "runs/small").mkdir(parents=True)
    with pytest.raises(ArgumentError, match=r"runs/small has a file for each record.*; delete it"):
        store.missing(JOB)


def test_record_is_whole_or_absent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        store.keep(JOB, INPUTS, RESULTS, wall=1.0, cpu=1.0)
    assert [path for path in store.folder.rglob("*") if path.is_file()] == []
    assert store.missing(JOB) == list(INPUTS)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        (torch.tensor(1.0), InputTypeError),
        ({64: 1.0}, InputTypeError),
    ],
)
def test_what_would_not_come_back_is_refused(value: Any, error: type[Exception]) -> None:
    good = {"metrics": {"rmse": 1.0}}
    check_results([good, good], 2)
    with pytest.raises(error):
        check_results([good, {"metrics": {"rmse": value}}], 2)


def test_each_set_of_inputs_has_one_result() -> None:
    with pytest.raises(ArgumentError, match="1 results for 2 sets of inputs"):
        check_results([{"metrics": {}}], 2)


def test_version_of_the_code_is_that_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HOMES", (tmp_path,))
    (tmp_path / "a.py").write_text("x = 1\n")
    first = versions()["code"]
    (tmp_path / "notes.txt").write_text("no code")
    assert versions()["code"] == first
    (tmp_path / "a.py").write_text("x = 2\n")
    assert versions()["code"] != first
