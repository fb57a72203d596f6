"""Checkpoints of whvi 0.1 are resumed; one of another run is refused with the difference."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from old_run import STEPS, Network, rows
from torch import nn

from whvi.errors import CheckpointError
from whvi.inference import SGHMC, SVI, Checkpoint, EarlyStopping, Fit, LinearWarmup, fit, fit_replicas
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian

GOLDEN = Path(__file__).with_name("golden")


def go_on(folder: Path, algorithm: Any = None) -> tuple[Fit, Network]:
    shutil.copytree(GOLDEN / "svi", folder)
    model = Network()
    algorithm = algorithm or SVI(1e-2, kl_weight=LinearWarmup(4))
    callbacks = [EarlyStopping(every=2, samples=2, validation=rows()), Checkpoint(folder)]
    result = fit(model, Gaussian(), rows(), steps=STEPS + 2, batch_size=8, algorithm=algorithm, callbacks=callbacks)
    return result, model


def test_it_goes_on_where_0_1_ended(tmp_path: Path) -> None:
    """Its looks are there, its best tensors too, and its function is known without its byte code."""
    saved = checkpoint.load(GOLDEN / "svi")
    assert any(" " in str(value) for value in saved.state["identity"]["model"].values())  # the hash
    result, model = go_on(tmp_path / "run")
    assert [step for step, _ in result.history.validation] == [2, 4, 6, 8]
    assert checkpoint.steps(tmp_path / "run") == [STEPS, STEPS + 2]
    moved = model.state_dict()["last.weight"] - saved.tensors["model.last.weight"]
    assert 0.0 < float(moved.abs().max()) < 0.1  # two steps of Adam at this rate
    kept = checkpoint.load(tmp_path / "run")
    assert float(kept.tensors["run.optimiser.0.step"]) == STEPS + 2
    assert torch.equal(kept.tensors["callbacks.history.steps"][:STEPS], saved.tensors["history.steps"])


def test_another_run_of_0_1_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"algorithm.kl_weight was \{'class': 'LinearWarmup'.* and is 1.0"):
        go_on(tmp_path / "run", SVI(1e-2))


def replicas(folder: Path, steps: int, rate: float = 2e-2) -> Fit:
    torch.manual_seed(0)
    models, likelihoods = [Network(), Network()], [Gaussian(), Gaussian()]
    settings, callbacks = [SVI(1e-2), SVI(rate)], [Checkpoint(folder)]
    return fit_replicas(
        models, likelihoods, [rows()] * 2, steps=steps, batch_size=8, algorithm=settings, callbacks=callbacks
    )


def chains(folder: Path, steps: int, step_size: float = 1e-2) -> Fit:
    torch.manual_seed(0)
    model, sampler = nn.Linear(3, 1), SGHMC(step_size, burn_in=2, thin=2, chains=2)
    return fit(model, Gaussian(), rows(), steps=steps, batch_size=8, algorithm=sampler, callbacks=[Checkpoint(folder)])


@pytest.mark.parametrize(("kind", "run"), [("replicas", replicas), ("sghmc", chains)])
def test_many_at_once_go_on_where_they_would_be(kind: str, run: Any, tmp_path: Path) -> None:
    """Within rounding a run that 0.1 began ends where one of this version does that has the same seeds."""
    shutil.copytree(GOLDEN / kind, tmp_path / "old")
    resumed, whole = run(tmp_path / "old", STEPS + 2), run(tmp_path / "new", STEPS + 2)
    assert checkpoint.steps(tmp_path / "old") == [STEPS, STEPS + 2]
    assert resumed.history.steps == whole.history.steps
    found, wanted = checkpoint.load(tmp_path / "old"), checkpoint.load(tmp_path / "new")
    assert found.state["run"] == wanted.state["run"]
    torch.testing.assert_close(found.tensors, wanted.tensors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "run", "message"),
    [("replicas", replicas, r"algorithm was .* and is"), ("sghmc", chains, r"algorithm.step_size was 0.01 and is 0.5")],
)
def test_others_are_refused_with_the_difference(kind: str, run: Any, message: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / kind, tmp_path / "old")
    with pytest.raises(CheckpointError, match=rf"belongs to another run: {message}"):
        run(tmp_path / "old", STEPS + 2, 0.5)
