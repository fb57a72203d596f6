"""``make proof`` in miniature: what it measures holds, and a record that breaks a promise says so."""

import json
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loading import FOLDER, benchmark

RECORD = Path(__file__).parents[2] / "results/bench/proof.json"


@pytest.fixture(scope="module")
def proof() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return benchmark("proof")


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads(RECORD.read_text())


def test_the_record_is_of_full_size_and_holds(proof: ModuleType, record: Any) -> None:
    assert (record["replications"], record["draws"]) == (proof.REPLICATIONS, proof.DRAWS)
    assert record["kl"].keys() == set(proof.POSTERIORS)
    assert record["holds"] == proof.holds(record)
    assert all(record["holds"].values())


@pytest.mark.parametrize(
    ("place", "value", "promise"),
    [
        (("calibration", "full", "g1"), 1e-4, "a full covariance is calibrated"),
        (("coverage", "0.9", "sigmas"), -5.0, "intervals cover"),
        (("kl", "planar:2", "sigmas"), 5.0, "KL divergences are right"),
    ],
)
def test_a_record_that_breaks_a_promise_says_so(
    proof: ModuleType, record: Any, place: tuple[str, str, str], value: float, promise: str
) -> None:
    broken = deepcopy(record)
    broken[place[0]][place[1]][place[2]] = value
    assert [name for name, good in proof.holds(broken).items() if not good] == [promise]


@pytest.mark.slow
def test_coverage_in_miniature(proof: ModuleType) -> None:
    """Calibration in miniature is in test_sbc.py."""
    found = proof.coverage(40, steps=200)
    assert all(abs(level["sigmas"]) < proof.SIGMAS for level in found.values()), found


@pytest.mark.parametrize("spec", ["full", "planar:2"])
def test_a_divergence_in_miniature(proof: ModuleType, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "CALLS", 20)
    assert abs(proof.divergence(spec, 10_000)["sigmas"]) < proof.SIGMAS
