"""A checkpoint of whvi 0.1 is resumed; one of another run is refused with the difference."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from old_run import STEPS, Network, rows

from whvi.errors import CheckpointError
from whvi.inference import SVI, Checkpoint, EarlyStopping, Fit, LinearWarmup, fit
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian

GOLDEN = Path(__file__).with_name("golden")


def go_on(folder: Path, algorithm: Any = None) -> tuple[Fit, Network]:
    shutil.copytree(GOLDEN, folder)
    model = Network()
    algorithm = algorithm or SVI(1e-2, kl_weight=LinearWarmup(4))
    callbacks = [EarlyStopping(every=2, samples=2, validation=rows()), Checkpoint(folder)]
    result = fit(model, Gaussian(), rows(), steps=STEPS + 2, batch_size=8, algorithm=algorithm, callbacks=callbacks)
    return result, model


def test_it_goes_on_where_0_1_ended(tmp_path: Path) -> None:
    """Its looks are there, its best tensors too, and its function is known without its byte code."""
    saved = checkpoint.load(GOLDEN)
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
