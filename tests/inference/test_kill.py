"""A run that is killed at any moment, again and again, ends in the same bits as one that is left alone."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from children import answer_of
from whvi.inference import Checkpoint, Progress, fit
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

KILLS, INTERVAL = 50, 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills copies of a process, which this system cannot make")
def test_fifty_kills_leave_no_trace_and_cost_an_interval_at_most(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed.py")
    whole, killed, places, lost = answer_of(script, tmp_path, KILLS, timeout=600)
    assert len(whole) == 64
    assert killed == whole
    assert len(places) == KILLS
    assert max(lost) <= INTERVAL
    assert len(set(places)) > 5  # the kills came at different moments of a run


def train(folder: Path, steps: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(WHVILinear(3, 8), nn.ReLU(), WHVILinear(8, 1))
    x = torch.arange(60.0).view(20, 3).cos()
    callbacks = [Progress(False), Checkpoint(folder, INTERVAL)]
    fit(model, Gaussian(), (x, x.sum(1)), steps=steps, batch_size=8, callbacks=callbacks)
    return model.state_dict()


@contextmanager
def disk_is_full() -> Iterator[None]:
    """A block in which the system writes no more than a few bytes of a file, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    deaf = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, deaf)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="this system does not limit the size of files")
def test_a_full_disk_costs_an_interval_at_most(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 10)
    train(tmp_path / "run", 5)
    shutil.copytree(tmp_path / "run", tmp_path / "before")
    with disk_is_full(), pytest.raises(OSError, match="File too large"):
        train(tmp_path / "run", 10)
    assert checkpoint.steps(tmp_path / "run") == checkpoint.steps(tmp_path / "before") == [4, 5]
    assert not [path for path in (tmp_path / "run").iterdir() if path.name.endswith(".tmp")]
    torch.testing.assert_close(train(tmp_path / "run", 10), whole, rtol=0, atol=0)
