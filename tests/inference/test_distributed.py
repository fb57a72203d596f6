"""Two processes that share a fit do what one does, and what they do can be interrupted and resumed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from children import answer_of
from whvi.errors import ArgumentError
from whvi.inference import Distributed, fit
from whvi.inference.distributed import Team
from whvi.likelihoods import Gaussian

Found = dict[str, Any]


def close(one: Found, two: Found, names: tuple[str, ...]) -> None:
    """The same numbers, to 1e-10."""
    for name in names:
        left, right = (json.loads(json.dumps(found[name]), parse_int=float) for found in (one, two))
        flat = [sorted(flatten(value)) for value in (left, right)]
        assert len(flat[0]) == len(flat[1]) > 0
        for (place, a), (other, b) in zip(*flat, strict=True):
            assert place == other
            assert a == pytest.approx(b, rel=1e-10, abs=1e-10), (name, place)


def flatten(value: Any, place: str = "") -> list[tuple[str, float]]:
    """All numbers of nested lists and dicts, with their places."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return [one for key, part in parts for one in flatten(part, f"{place}.{key}")]
    return [(place, value)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes copies of a process, which this system cannot")
def test_two_processes_share_a_fit(tmp_path: Path) -> None:
    """One test for all laws: starting the processes takes longer than what they do."""
    script = Path(__file__).with_name("sharing.py")
    first, second, alone = answer_of(script, tmp_path)
    check_against_one(first, alone)
    check_same_everywhere(first, second)
    check_interruption(first, second)
    check_words(first["refused"], second["refused"])


def check_against_one(first: Found, alone: Found) -> None:
    """Parameters, bound, KL and validation are those of one process; batches of 7 are shared as 4 and 3."""
    close(first["mode"], alone["mode"], ("state", "history"))
    close(first["quiet"], alone["quiet"], ("state", "history", "validation"))
    assert first["quiet"]["stopped"] == alone["quiet"]["stopped"] == "early"
    weights = [torch.tensor(alone[name]["state"]["0.weight"]) for name in ("mode", "prior counted twice")]
    assert (weights[0] - weights[1]).abs().max() > 1e-3  # so it would be seen


def check_same_everywhere(first: Found, second: Found) -> None:
    """Tensors and reports are equal after each step, though noise is not."""
    for name in ("mode", "quiet", "whole", "interrupted", "ended"):
        for part in ("state", "history", "validation", "stopped"):
            assert first[name][part] == second[name][part]
    assert first["whole"]["states"] == second["whole"]["states"]
    assert len(set(first["whole"]["states"])) == len(first["whole"]["states"]) == 12
    assert not set(first["whole"]["outputs"]) & set(second["whole"]["outputs"])
    assert first["ended"]["stopped"] == "callback"
    assert first["ended"]["history"][0][-1] == 3
    assert (first["ended"]["seen"], second["ended"]["seen"]) == ([3], [])


def check_interruption(first: Found, second: Found) -> None:
    """Ctrl-C in one process stops both after the same step, and the run ends in the same bits as one left alone."""
    assert first["interrupted"]["words"] == second["interrupted"]["words"] == ["after 5 steps", "after 8 steps"]
    for found in (first, second):
        assert found["interrupted"]["state"] == found["whole"]["state"]
        assert found["interrupted"]["history"] == found["whole"]["history"]
        assert found["interrupted"]["outputs"] == found["whole"]["outputs"][8:]


def check_words(*refused: list[str]) -> None:
    """Both processes are told what is wrong."""
    for words in refused:
        algorithm, rows, folder = words
        assert algorithm.startswith("UnsupportedError: several processes can share SVI and MAP, but not NoisyKFAC")
        assert rows.startswith("ArgumentError: a batch of 1 rows cannot be divided among 2 processes")
        assert folder.startswith("CheckpointError: the processes found checkpoints after [2.0, 0.0] steps")


def test_alone_without_a_launcher_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    x = torch.ones(2, 1)
    with pytest.raises(ArgumentError, match="start the program with torchrun"):
        fit(torch.nn.Linear(1, 1), Gaussian(), (x, x), steps=1, algorithm=Distributed())


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_parts_are_all_rows_once(size: int) -> None:
    rows = torch.arange(11)
    parts = [Team(rank, size).part(rows) for rank in range(size)]
    assert torch.equal(torch.cat(parts), rows)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
