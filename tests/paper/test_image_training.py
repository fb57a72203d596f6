"""Training on images: which algorithm and settings a network gets, what counts as training, what weights bring."""

from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest
import torch
from torch import nn

from whvi.errors import ArgumentError
from whvi.inference import SVI
from whvi.predictive import predict
from whvi_paper.baselines import NoisyKFAC
from whvi_paper.baselines.noisy_kfac.algorithm import NoisyKFACRun
from whvi_paper.exhibits import convnets
from whvi_paper.images.command import _fit
from whvi_paper.images.settings import OF_NNG, Reduced, algorithm, complete, native_precision
from whvi_paper.images.training import FIT_TIMES, ImageTraining, measure, report_every, train
from whvi_paper.networks import convnet
from whvi_paper.workers import Clock

INPUTS: dict[str, Any] = {
    "dataset": "synthetic-images", "model": "simple-cnn", "method": "mcd", "epochs": 1, "samples": 1, "seed": 0,
    "configuration": {"batch_size": 100, "precision": "full"},
}  # fmt: skip


def sketch(of: str, model: str = "simple-cnn") -> nn.Module:
    """A network without numbers."""
    with torch.device("meta"):
        return convnet(model, of)


@pytest.mark.parametrize("of", ["nng", "nng+mcd", "whvi+nng"])
def test_layers_of_noisy_kfac_get_it_under_any_name(of: str) -> None:
    found = algorithm(sketch(of), complete(sketch(of), {"schedule": "constant"}), 10)
    assert isinstance(found, NoisyKFAC)
    assert {name: getattr(found, name) for name in OF_NNG if name != "precision"} == {
        name: value for name, value in OF_NNG.items() if name != "precision"
    }
    assert complete(sketch(of), {"learning_rate": 0.5, "precision": "auto"}).items() >= {
        "learning_rate": 0.5, "precision": "full",
    }.items()  # fmt: skip
    with pytest.raises(ArgumentError, match="noisy K-FAC, which trains this model, has no precision 'bf16'"):
        complete(sketch(of), {"precision": "bf16"})


@pytest.mark.parametrize("of", ["dense", "whvi", "mfg+mcd"])
def test_all_others_get_svi(of: str) -> None:
    found = algorithm(sketch(of), complete(sketch(of), {"precision": "bf16"}), 10)
    assert isinstance(found, SVI)
    assert (found.learning_rate, found.precision) == (3e-3, "bf16")


def test_a_network_left_to_itself_has_the_settings_of_the_exhibit() -> None:
    methods = set()
    for job in convnets.jobs("recipe"):
        (inputs,) = job.inputs
        model = sketch(inputs["method"], inputs["model"])
        found, precision = complete(model, {}), complete(model, inputs["configuration"])["precision"]
        assert found == {**inputs["configuration"], "precision": precision, "validation": False}
        methods.add(inputs["method"])
    assert {"whvi", "nng"} <= methods


def test_mistakes_in_settings_are_named() -> None:
    model = sketch("whvi")
    with pytest.raises(ArgumentError, match="schedule 'cosine' is unknown; use one of: one-cycle, constant"):
        algorithm(model, complete(model, {"schedule": "cosine"}), 10)
    with pytest.raises(ArgumentError, match="precision 'fp8' is unknown; use one of: auto, full, bf16"):
        complete(model, {"precision": "fp8"})


def test_precision_is_full_where_torch_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native_precision() in ("full", "bf16")
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert native_precision() == "full"


def test_predictions_have_the_precision_of_the_training() -> None:
    full, reduced = (
        ImageTraining({**INPUTS, "method": "whvi", "configuration": {"batch_size": 100, "precision": precision}})
        for precision in ("full", "bf16")
    )
    assert full.predictor is full.model
    assert isinstance(reduced.predictor, Reduced)
    x = full.test[0][:8]
    exact, rounded = (
        predict(task.predictor, x, 4, likelihood=task.likelihood, seed=0).mean for task in (full, reduced)
    )
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)  # bf16 has 8 bits
    torch.testing.assert_close(exact, rounded, rtol=0, atol=0.03)


@pytest.mark.parametrize(("batch_size", "rows", "steps"), [(1000, 200, 3), (200, 200, 3), (150, 150, 4)])
def test_a_batch_has_no_more_than_all_images(batch_size: int, rows: int, steps: int) -> None:
    task = ImageTraining({**INPUTS, "epochs": 3, "configuration": {"batch_size": batch_size}})
    assert (task.batch_size, task.steps) == (rows, steps)


def test_reports_come_about_twenty_times_and_at_the_end_of_an_epoch() -> None:
    for steps in range(1, 400):
        every = report_every(steps)
        assert steps % every == 0
        assert every >= steps // 20
        assert not any(steps % n == 0 for n in range(max(1, steps // 20), every))


def test_filters_of_noisy_kfac_beside_a_map_with_dropout_are_trained(tmp_path: Path) -> None:
    """Both by their own: the covariances move, and so does what Adam has."""
    task = ImageTraining({**INPUTS, "method": "mcd+nng"})
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    assert isinstance(task.fit(tmp_path, lambda share: None).run, NoisyKFACRun)
    after = task.model.state_dict()
    assert after.keys() == before.keys()
    assert [name for name, value in after.items() if torch.equal(value, before[name])] == []


def test_weights_that_are_kept_bring_their_curve_and_their_time(tmp_path: Path) -> None:
    """A record from them is that of the fit."""
    first, second = (tmp_path / name for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir()
    earlier = Clock(first / FIT_TIMES)
    earlier._start = earlier._start[0], earlier._start[1] - 1000.0
    earlier.keep()  # an earlier session of the same task
    (fitted,) = train([INPUTS], first, lambda share: None)
    assert 1000 < fitted["training_cpu_seconds"] < 1100
    assert [epoch for epoch, *_ in fitted["curve"]] == [1]
    assert train([INPUTS], second, lambda share: None) == [fitted]
    assert not (second / "checkpoint").exists()


def test_a_second_cycle_goes_on_from_the_first(tmp_path: Path) -> None:
    """With weights, curve and time of it, whether they are there or have to be made."""
    (first,) = train([INPUTS], tmp_path / "alone" / "a", lambda share: None)
    both = {**INPUTS, "epochs": [1, 2]}
    (after,) = train([both], tmp_path / "alone" / "b", lambda share: None)
    shares: list[float] = []
    (made,) = train([both], tmp_path / "anew" / "b", shares.append)
    assert shares == sorted(shares)
    assert (len(set(shares)) > 1, shares[-1]) == (True, 1.0)
    assert after["metrics"] == made["metrics"] != first["metrics"]
    assert after["curve"] == made["curve"]
    assert [epoch for epoch, *_ in after["curve"]] == [1, 2, 3]
    assert after["curve"][:1] == first["curve"]
    assert (
        after["training_cpu_seconds"] > first["training_cpu_seconds"]
    )  # which it has, as it stands beside its weights
    assert [path.name for path in (tmp_path / "anew").iterdir() if path.name != "models"] == ["b"]
    task = ImageTraining(both)
    assert (task.steps, task.seed, task.earlier) == (4, 1, INPUTS)


def test_each_cycle_has_images_of_its_side(tmp_path: Path) -> None:
    small = {**INPUTS, "model": "resnet18", "sides": [8], "epochs": [1], "configuration": {"batch_size": 100}}
    both = {**small, "sides": [8, 16], "epochs": [1, 1]}
    first, second = ImageTraining(small), ImageTraining(both)
    assert [task.test[0].shape[-2:] for task in (first, second)] == [(8, 8), (16, 16)]
    assert second.earlier == {**small, "epochs": 1}
    seen: list[tuple[int, ...]] = []
    second.model[0].register_forward_hook(lambda layer, inputs, output: seen.append(tuple(inputs[0].shape[-2:])))
    second.fit(tmp_path, lambda share: None)
    assert set(seen) == {(16, 16)}
    with pytest.raises(ArgumentError, match=r"sides \[8\] must have one for each cycle of epochs \[1, 1\]"):
        ImageTraining({**both, "sides": [8]})


def test_looks_at_test_images_are_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause, plain = 0.5, ImageTraining.measure

    def slow(*arguments: Any, **options: Any) -> dict[str, float]:
        sleep(pause)
        return plain(*arguments, **options)

    monkeypatch.setattr(ImageTraining, "measure", slow)
    task = ImageTraining(INPUTS)
    start = perf_counter()
    speed = _fit(task, tmp_path, distributed=False)
    seconds = perf_counter() - start
    assert pause < task.look_seconds < seconds
    assert speed is not None
    assert speed > 200 / (seconds - pause)


def test_mnll_is_that_of_the_prediction() -> None:
    task = ImageTraining(INPUTS)
    x, y = task.test
    prediction = predict(task.model, x, 3, likelihood=task.likelihood, seed=0)
    assert measure(prediction, y)["mnll"] == pytest.approx(float(prediction.mnll(y)), abs=2e-6)


def test_the_validation_part_is_the_end_of_the_training_images_and_no_test_image() -> None:
    whole = ImageTraining(INPUTS)
    part = ImageTraining({**INPUTS, "configuration": {**INPUTS["configuration"], "validation": True}})
    assert (len(whole.train[0]), len(whole.test_images)) == (200, 40)
    for place in (0, 1):
        torch.testing.assert_close(part.train[place], whole.train[place][:180])
    torch.testing.assert_close(part.test_images, whole.train[0][180:])
    torch.testing.assert_close(part.test[1], whole.train[1][180:])
