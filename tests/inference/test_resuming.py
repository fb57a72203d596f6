"""A fit that is interrupted, or ends early, is resumed in the same bits; and no other is taken for it."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from fitted import Data, bits, network, rows, same
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from whvi.errors import DivergenceError, WhviError
from whvi.inference import MAP, SVI, EarlyStopping, Moment, fit
from whvi.io import checkpoint
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

pytestmark = pytest.mark.filterwarnings("ignore:.*= is deprecated. use:DeprecationWarning")


@pytest.fixture
def data() -> Data:
    return rows()


@pytest.mark.parametrize("loader", [False, True])
@pytest.mark.parametrize("stopping", [None, EarlyStopping("mnll", every=7, patience=100, samples=2)])
def test_a_resumed_run_ends_in_the_same_bits(
    data: Data, tmp_path: Path, loader: bool, stopping: EarlyStopping | None
) -> None:
    options = {"early_stopping": stopping, "validation": None if stopping is None else data, "record_every": 4}
    source = DataLoader(TensorDataset(*data), batch_size=32, shuffle=True) if loader else data

    def run(steps: int, folder: Path | None) -> tuple[list[Tensor], object]:
        model, likelihood = network(), Gaussian(frozen_steps=5)
        result = fit(
            model, likelihood, source, steps=steps, checkpoint=folder, checkpoint_every=10, batch_size=32, **options
        )
        return bits(model, likelihood), result.history

    whole = run(50, None)
    run(23, tmp_path)  # ends between two checkpoints, in the middle of a window
    assert checkpoint.steps(tmp_path) == [20, 23]
    resumed = run(50, tmp_path)
    assert same(whole[0], resumed[0])
    assert whole[1] == resumed[1]
    assert same(run(50, tmp_path)[0], whole[0])  # nothing left to do


def test_ctrl_c_saves_the_step_and_the_next_run_goes_on(data: Data, tmp_path: Path) -> None:
    def interrupt(moment: Moment) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    whole = network()
    fit(whole, Gaussian(), data, steps=20)
    with pytest.raises(KeyboardInterrupt, match="after 7 steps"):
        fit(network(), Gaussian(), data, steps=20, checkpoint=tmp_path, callback=interrupt, callback_every=7)
    assert checkpoint.steps(tmp_path) == [7]
    resumed = network()
    fit(resumed, Gaussian(), data, steps=20, checkpoint=tmp_path)
    assert same(bits(whole), bits(resumed))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_at_the_very_end_is_not_lost(data: Data, tmp_path: Path) -> None:
    """Here in the last look at the validation rows, after which there is no step to notice it."""

    class Impatient(WHVILinear):
        pressed = False

        def forward(self, x: Tensor) -> Tensor:
            if not self.training and not self.pressed:
                self.pressed = True
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(x)

    stopping = EarlyStopping(every=6)
    with pytest.raises(KeyboardInterrupt, match="after 6 steps"):
        fit(
            Impatient(3, 1),
            Gaussian(),
            data,
            steps=6,
            early_stopping=stopping,
            validation=data,
            checkpoint=tmp_path,
        )
    assert checkpoint.steps(tmp_path) == [6]


def test_two_runs_do_not_share_a_folder(data: Data, tmp_path: Path) -> None:
    run = partial(fit, data=data, steps=5, checkpoint=tmp_path / "new" / "folder")

    def start_another(moment: Moment) -> None:
        with pytest.raises(WhviError, match=r"another run is using .*folder; wait"):
            run(network(), Gaussian())

    run(network(), Gaussian(), callback=start_another, callback_every=2)
    run(network(), Gaussian())  # it is free again


def test_another_run_is_not_resumed(data: Data, tmp_path: Path) -> None:
    run = partial(fit, data=data, steps=5, checkpoint=tmp_path)
    run(network(), Gaussian())
    for change, message in [
        ({"algorithm": SVI(2e-3)}, r"algorithm.learning_rate was 0.001 and is 0.002"),
        ({"algorithm": MAP()}, "Bayesian"),
        ({"seed": 4}, "seed was 0 and is 4"),
        ({"batch_size": 7}, "data.batch_size was 64 and is 7"),
        ({"data": (data[0] + 1, data[1])}, "data.sha256"),
        ({"early_stopping": EarlyStopping("elbo")}, "early_stopping"),
    ]:
        with pytest.raises(WhviError, match=message):
            run(network(), Gaussian(), **change)
    for likelihood, message in [
        (Gaussian(noise="output"), "likelihood.kind was 'scalar' and is 'output'"),
        (Gaussian(frozen_steps=9), "likelihood.frozen_steps was 0 and is 9"),
    ]:
        with pytest.raises(WhviError, match=message):
            run(network(), likelihood)
    tighter = network()
    tighter[0] = WHVILinear(3, 16, prior_variance=0.1)
    with pytest.raises(WhviError, match=r"model\.0.*variance"):
        run(tighter, Gaussian())
    with pytest.raises(WhviError, match="has done 5 steps, but steps is 3"):
        run(network(), Gaussian(), steps=3)


def test_what_diverged_is_not_saved(data: Data, tmp_path: Path) -> None:
    algorithm = SVI(1e6, optimizer=torch.optim.SGD)
    with pytest.raises(DivergenceError, match="lower the learning rate"):
        fit(network(), Gaussian(), data, steps=200, algorithm=algorithm, checkpoint=tmp_path, checkpoint_every=1)
    found = checkpoint.latest(tmp_path)
    assert found is None or all(t.isfinite().all() for t in found.tensors.values())


class Augmented(TensorDataset):
    """Draws as it is read."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn(3), y


def test_augmentation_resumes_in_the_same_bits(data: Data, tmp_path: Path) -> None:
    def run(steps: int, folder: Path | None) -> list[Tensor]:
        model = network()
        sampler = RandomSampler(data[0], generator=torch.Generator())
        loader = DataLoader(Augmented(*data), batch_size=32, sampler=sampler)
        fit(model, Gaussian(), loader, steps=steps, checkpoint=folder)
        return bits(model)

    whole = run(20, None)
    run(13, tmp_path)
    assert same(whole, run(20, tmp_path))


def test_a_mask_of_minus_infinity_can_be_saved(data: Data, tmp_path: Path) -> None:
    model = network()
    model.register_buffer("mask", torch.full((2,), -torch.inf))
    fit(model, Gaussian(), data, steps=3, checkpoint=tmp_path)
    assert checkpoint.steps(tmp_path) == [3]


def test_a_run_that_a_callback_ended_can_go_on(data: Data, tmp_path: Path) -> None:
    run = partial(fit, data=data, steps=20, checkpoint=tmp_path)
    assert run(network(), Gaussian(), callback=lambda moment: True, callback_every=7).history.steps[-1] == 7
    resumed, whole = network(), network()
    assert run(resumed, Gaussian()).history.stopped == "steps"
    fit(whole, Gaussian(), data, steps=20)
    assert same(bits(resumed), bits(whole))
