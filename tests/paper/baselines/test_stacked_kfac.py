"""Noisy K-FAC on replicas: R models at once end where each would end alone."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, WhviError
from whvi.inference import SVI, Checkpoint, fit, fit_replicas
from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi_paper.baselines import MatrixGaussianConv2d, MatrixGaussianLinear, NoisyKFAC

SIZES, SEEDS, STEPS = (30, 41, 30), (7, 8, 9), 17
OPTIONS: dict[str, Any] = {"update_every": 5, "moments_every": 2, "adam_learning_rate": 0.01}


def mlp(outputs: int = 1, **options: Any) -> nn.Module:
    return nn.Sequential(
        MatrixGaussianLinear(3, 6, **options), nn.ReLU(inplace=True), MatrixGaussianLinear(6, outputs, **options)
    )


class Mixed(nn.Module):
    """Layers of several kinds, buffers that a pass changes, one layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared = WHVILinear(3, 4), MatrixGaussianLinear(4, 4, draws="example")
        self.norm, self.last = nn.BatchNorm1d(4), MeanFieldLinear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(self.shared(self.norm(self.shared(self.first(x)).tanh())))
        return output


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 1, 3)), MatrixGaussianConv2d(1, 4, (1, 2)), nn.Tanh(),
        MatrixGaussianConv2d(4, 2, 1, groups=2), nn.Flatten(), MatrixGaussianLinear(4, 1),
    )  # fmt: skip


def deep() -> nn.Module:
    """More draws than a step is given seeds for at first: it is begun again, and counts once."""
    return nn.Sequential(
        nn.BatchNorm1d(3), MatrixGaussianLinear(3, 2), *(MatrixGaussianLinear(2, 2) for _ in range(18)), nn.Linear(2, 1)
    )


CASES: dict[str, tuple[Callable[[], nn.Module], bool, dict[str, Any]]] = {
    "regression": (mlp, False, {}),
    "classification": (lambda: mlp(3), True, {}),
    "empirical": (mlp, False, {"fisher": "empirical", "clip": None, "kl_weight": 0.5}),
    "empirical classes": (lambda: mlp(3, bias=False), True, {"fisher": "empirical"}),
    "a layer alone": (lambda: MatrixGaussianLinear(3, 1, prior_variance=0.3), False, {"damping": 0.0}),
    "mixed": (Mixed, False, {}),
    "convolution": (convolution, False, {}),
    "deep": (deep, False, {}),
}


def problem(
    make: Callable[[], nn.Module], classes: bool
) -> tuple[list[nn.Module], list[Likelihood], list[tuple[Tensor, Tensor]]]:
    torch.manual_seed(1)
    models = [make().double() for _ in SIZES]
    likelihoods: list[Likelihood] = [Categorical(3) if classes else Gaussian(frozen_steps=5).double() for _ in SIZES]
    data = []
    for size in SIZES:
        x = torch.randn(size, 3).double()
        data.append((x, x.argmax(1) if classes else x.sum(1, keepdim=True).sin()))
    return models, likelihoods, data


def differing(one: nn.Module, other: nn.Module, tolerance: float = 1e-9) -> list[str]:
    """Names of tensors that are not the same within rounding."""
    pairs = zip(one.state_dict().items(), other.state_dict().values(), strict=True)
    return [name for (name, a), b in pairs if not torch.allclose(a, b, rtol=tolerance, atol=tolerance)]


@pytest.mark.parametrize("case", CASES)
def test_a_replica_ends_where_its_model_ends_alone(case: str) -> None:
    """Different data of different lengths, different seeds and rates: in float64, to nine digits."""
    make, classes, options = CASES[case]
    models, likelihoods, data = problem(make, classes)
    start, (twins, others) = copy.deepcopy(models), copy.deepcopy((models, likelihoods))
    settings = [NoisyKFAC(learning_rate=rate, **OPTIONS, **options) for rate in (0.05, 0.01, 0.1)]
    steps = 4 if case == "deep" else STEPS
    result = fit_replicas(models, likelihoods, data, steps=steps, algorithm=settings, batch_size=16, seeds=SEEDS)
    for r, (model, twin, other) in enumerate(zip(models, twins, others, strict=True)):
        alone = fit(twin, other, data[r], steps=steps, algorithm=settings[r], batch_size=16, seed=SEEDS[r])
        assert differing(model, twin) == []
        assert differing(likelihoods[r], other) == []
        assert [each[r] for each in result.history.elbo] == pytest.approx(alone.history.elbo, rel=1e-9)
        learned = {name for name, _ in model.named_parameters()}
        assert learned <= set(differing(model, start[r]))


def test_replicas_resume_in_the_same_bits(tmp_path: Path) -> None:
    """Also between two updates of the inverses."""

    def run(steps: int, folder: Path | None) -> list[nn.Module]:
        models, likelihoods, data = problem(Mixed, False)
        settings = NoisyKFAC(**OPTIONS)
        saving = [] if folder is None else [Checkpoint(folder)]
        fit_replicas(models, likelihoods, data, steps=steps, algorithm=settings, batch_size=8, callbacks=saving)
        return [*models, *likelihoods]

    whole = run(20, None)
    run(9, tmp_path)
    for one, other in zip(whole, run(20, tmp_path), strict=True):
        assert differing(one, other, 0.0) == []


def test_a_model_that_was_trained_keeps_its_curvature() -> None:
    """Next to one that was not, in one run."""
    models, likelihoods, data = problem(mlp, False)
    settings = NoisyKFAC(**OPTIONS)
    fit(models[1], likelihoods[1], data[1], steps=7, algorithm=settings)
    twin, other = copy.deepcopy((models[1], likelihoods[1]))
    fit_replicas(models, likelihoods, data, steps=7, algorithm=settings, batch_size=16)
    fit(twin, other, data[1], steps=7, algorithm=settings, batch_size=16, seed=1)
    assert differing(models[1], twin) == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("input_moment", float("nan"), r"curvature of layer '0' is not finite in replicas \[0, 2\]: .*learning_rate"),
        ("input_moment", -1.0, r"curvature of layer '0' is not positive definite in replicas \[0, 2\]: .*float64"),
        ("input_root", 0.0, r"spread of layer '0' has no inverse in replicas \[0, 2\]: "),
    ],
)
def test_the_replicas_that_fail_are_named(key: str, value: float, said: str) -> None:
    models, likelihoods, data = problem(mlp, False)
    for model in (models[0], models[2]):
        getattr(model[0], key).fill_(value)
    with pytest.raises(ArgumentError, match=said):
        fit_replicas(models, likelihoods, data, steps=2, algorithm=NoisyKFAC())


def test_unlike_settings_are_refused() -> None:
    models, likelihoods, data = problem(mlp, False)
    plain = NoisyKFAC()
    for settings, kind, said in (
        ([plain, plain, NoisyKFAC(damping=0.1)], ArgumentError, "differ in learning_rate only"),
        ([plain, plain, NoisyKFAC(schedule=1.0)], ArgumentError, "differ in learning_rate only"),
        ([plain, plain, SVI()], WhviError, "one kind for all"),
        (["kfac"] * 3, WhviError, "such as SVI.. or MAP.."),
    ):
        with pytest.raises(kind, match=said):
            fit_replicas(models, likelihoods, data, steps=2, algorithm=settings)  # type: ignore[arg-type]
    plains = [nn.Linear(3, 1).double() for _ in SIZES]
    with pytest.raises(ArgumentError, match="no layer for noisy K-FAC"):
        fit_replicas(plains, likelihoods, data, steps=2, algorithm=plain)
