"""Training as a job: the scale of its metrics, and that an interrupted one ends as if it had not been."""

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from whvi.inference import SVI, CosineDecay, Fit, fit_replicas
from whvi.inference.compiled import can_compile
from whvi.inference.schedules import at
from whvi.likelihoods import Categorical, Gaussian
from whvi_paper import recipe, training
from whvi_paper.baselines import NoisyKFAC
from whvi_paper.data import DatasetKind, LoadedDataset, Split
from whvi_paper.networks import METHODS, network

ROWS, STEPS = 60, 24


def small(task: DatasetKind) -> LoadedDataset:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 3))
    y = 100.0 + 10.0 * x[:, :1] + generator.normal(size=(ROWS, 1))
    if task is DatasetKind.REGRESSION:
        return LoadedDataset("small", task, x, y, ("a", "b", "c"), ("y",), (), "0123")
    return LoadedDataset("small", task, x, (y[:, 0] > 100).astype(np.int64), ("a", "b", "c"), (), ("no", "yes"), "0123")


@pytest.fixture
def regression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load", lambda name: small(DatasetKind.REGRESSION))


def inputs(method: str, task: str = "regression", **more: int) -> list[dict[str, object]]:
    common = {"dataset": "small", "method": method, "depth": 1, "width": 8, "steps": STEPS, "samples": 8, **more}
    settings = recipe.configuration(method, task)
    return [{**common, "configuration": settings, "split": index, "seed": index} for index in range(2)]


class Stop:
    """A report that raises an error once, when so much of the work is done."""

    def __init__(self, error: type[BaseException] | None = None, share: float = 0.6) -> None:
        self.error, self.share, self.shares = error, share, [0.0]

    def __call__(self, share: float) -> None:
        self.shares.append(share)
        if self.error is not None and share >= self.share:
            raise self.error


@pytest.mark.parametrize(  # Ctrl-C saves the state; another error is like a kill
    ("method", "error"), [("whvi", KeyboardInterrupt), ("whvi", RuntimeError), ("nng", RuntimeError)]
)
@pytest.mark.usefixtures("regression")
def test_interrupted_training_ends_in_the_same_numbers(method: str, error: type[BaseException], tmp_path: Path) -> None:
    jobs = inputs(method, curve_every=4)
    whole = training.train(jobs, tmp_path / "whole", Stop())
    with pytest.raises(error):
        training.train(jobs, tmp_path / "parts", Stop(error))
    rest = Stop()
    assert training.train(jobs, tmp_path / "parts", rest) == whole
    assert rest.shares[1] >= Stop().share  # short runs have checkpoints too
    assert [point[0] for point in whole[0]["curve"]] == [4, 8, 12, 16, 20, 24]
    assert whole[0]["metrics"] != whole[1]["metrics"]
    assert whole[0]["data_sha256"] == "0123"


@pytest.mark.parametrize("method", ["mfg", "mcd"])
@pytest.mark.usefixtures("regression")
def test_reports_rise_to_the_end_and_curves_are_optional(method: str, tmp_path: Path) -> None:
    report = Stop()
    found = training.train(inputs(method), tmp_path, report)
    assert report.shares == sorted(report.shares)
    assert report.shares[-1] == 1.0
    assert "curve" not in found[0]
    assert found[0]["metrics"].keys() == {"mnll", "expected_nll", "rmse", "rmse_of_samples", "coverage_90", "elbo"}


def test_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load", lambda name: small(DatasetKind.CLASSIFICATION))
    found = training.train(inputs("whvi", "classification"), tmp_path, Stop())
    assert found[0]["metrics"].keys() == {"mnll", "expected_nll", "error", "ece", "elbo"}
    assert 0.0 <= found[0]["metrics"]["error"] <= 1.0


class Constant(nn.Module):
    """Predicts the same numbers for every row."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = torch.tensor(values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values.repeat(len(x), 1)


def test_metrics_are_on_the_scale_of_the_data() -> None:
    """Against numpy, with the formula of the Gaussian on raw targets."""
    y = torch.tensor([[1.0], [2.0], [4.0], [9.0]], dtype=torch.float64)
    test_y = torch.tensor([[3.0], [30.0]], dtype=torch.float64)
    parts = Split((torch.zeros(4, 2), y), (torch.zeros(2, 2), test_y))
    data = training.Standardised(parts, "regression")
    assert data.train[1].mean() == pytest.approx(0.0, abs=1e-6)
    assert data.train[1].std() == pytest.approx(1.0, abs=1e-6)
    found = training.evaluate(Constant(0.5), Gaussian(1, variance=0.25), data, samples=2, seed=0)
    mean, scale = np.mean([1, 2, 4, 9]), np.std([1, 2, 4, 9], ddof=1)
    error = np.array([3.0, 30.0]) - (mean + 0.5 * scale)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert found["rmse_of_samples"] == pytest.approx(found["rmse"], rel=1e-5)  # all functions are the same
    variance = 0.25 * scale**2
    assert found["mnll"] == pytest.approx(
        np.mean(0.5 * np.log(2 * np.pi * variance) + error**2 / (2 * variance)), rel=1e-5
    )
    assert found["coverage_90"] == 0.5
    assert data.log_volume == pytest.approx(log(scale))
    raw = training.Standardised(parts, "regression", raw=True)
    found = training.evaluate(Constant(0.5), Gaussian(1, variance=0.25), raw, samples=2, seed=0)
    assert (raw.train[1] is y, raw.log_volume) == (True, 0.0)
    assert found["rmse"] == pytest.approx(np.sqrt((2.5**2 + 29.5**2) / 2), rel=1e-5)


def test_outputs_have_scales_of_their_own_and_densities_are_summed_over_them() -> None:
    """Against numpy, with the formula of the Gaussian on raw targets, for outputs of very different scales."""
    y = np.array([[1.0, 300.0], [2.0, 100.0], [4.0, 200.0], [9.0, 900.0]])
    test_y = np.array([[3.0, 400.0], [8.0, 150.0]])
    tensors = torch.from_numpy(y), torch.from_numpy(test_y)
    data = training.Standardised(Split((torch.zeros(4, 2), tensors[0]), (torch.zeros(2, 2), tensors[1])), "regression")
    likelihood = Gaussian(2, noise="output", variance=0.25)
    found = training.evaluate(Constant(0.5, -1.0), likelihood, data, samples=2, seed=0)
    scale = y.std(0, ddof=1)
    error = test_y - (y.mean(0) + np.array([0.5, -1.0]) * scale)
    variance = 0.25 * scale**2
    density = -0.5 * np.log(2 * np.pi * variance) - error**2 / (2 * variance)
    assert found["mnll"] == pytest.approx(-density.sum(1).mean(), rel=1e-5)
    assert found["expected_nll"] == pytest.approx(found["mnll"], rel=1e-5)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-5)
    assert data.log_volume == pytest.approx(np.log(scale).sum())


def test_likelihood_and_outputs_are_those_of_the_task() -> None:
    settings = recipe.configuration("whvi", "regression")
    regression, classes = small(DatasetKind.REGRESSION), small(DatasetKind.CLASSIFICATION)
    assert (training.outputs_of(regression), training.outputs_of(classes)) == (1, 2)
    assert isinstance(training.make_likelihood(regression, settings), Gaussian)
    assert isinstance(training.make_likelihood(classes, settings), Categorical)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_network_and_an_algorithm(method: str) -> None:
    model = network(method, 5, 2, depth=2, width=8)
    assert model(torch.randn(5, 5)).shape == (5, 2)
    algorithm = recipe.algorithm(method, recipe.configuration(method, "regression"), 10)
    assert type(algorithm) is (NoisyKFAC if method == "nng" else SVI)
    assert algorithm.learning_rate == (0.1 if method == "nng" else 1e-2)
    assert algorithm.schedule == CosineDecay(10)


@pytest.mark.parametrize(
    ("method", "task", "depth", "share"),
    [("whvi", "regression", 2, 0.2), ("whvi", "regression", 1, 0.0), ("whvi", "classification", 2, 0.0),
     ("mfg", "regression", 2, 0.0)],
)  # fmt: skip
def test_the_weight_of_the_kl_rises_over_a_share_of_the_steps(method: str, task: str, depth: int, share: float) -> None:
    algorithm = recipe.algorithm(method, recipe.configuration(method, task, depth), 100)
    assert isinstance(algorithm, SVI)
    weights = [at(algorithm.kl_weight, step) for step in range(100)]
    assert sum(weight < 1.0 for weight in weights) == 100 * share
    assert weights[-1] == 1.0


@pytest.mark.parametrize("method", ["whvi", "mfg"])
@pytest.mark.usefixtures("regression")
def test_whvi_infers_its_scales_in_the_shallow_table_alone(method: str, tmp_path: Path) -> None:
    counts = []
    for how in (recipe.PLAIN, recipe.SHALLOW):
        settings = how.configuration(method, "regression", 1)
        jobs = [{**one, "steps": 2, "configuration": settings} for one in inputs(method)]
        counts.append(training.train(jobs, tmp_path / str(len(counts)), Stop())[0]["parameters"])
        assert ("kl_warm_up" in settings) == (how is recipe.SHALLOW and method == "whvi")
    size, scales = 4, 2 * (8 // 4)  # blocks of side 4, each with two scales
    assert counts[1] - counts[0] == (scales * size if method == "whvi" else 0)


@pytest.mark.parametrize(("method", "compiled"), [("whvi", True), ("nng", False)])
@pytest.mark.usefixtures("regression")
def test_long_runs_are_compiled(method: str, compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fit(*args: Any, compile: bool, **options: Any) -> Fit:
        asked.append(compile)
        return fit_replicas(*args, **options)

    monkeypatch.setattr(training, "fit_replicas", fit)
    for limit in (STEPS, STEPS + 1):
        monkeypatch.setattr(training, "COMPILED_FROM", limit)
        training.train(inputs(method), tmp_path / str(limit), Stop())
    assert asked == [compiled and can_compile(), False]


@pytest.mark.parametrize("call", [lambda: network("vi", 1, 1, 1, 1), lambda: recipe.profile("vi")])
def test_unknown_names_are_answered_with_the_known(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="'vi' is unknown; use one of: "):
        call()
