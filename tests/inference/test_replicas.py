"""Replicas: R models at once end where each would end alone."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from whvi.errors import WhviError
from whvi.inference import MAP, SVI, Checkpoint, Every, History, Moment, PowerDecay, deep_ensemble, fit, fit_replicas
from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, MeanFieldLinear, WHVIColumn, WHVIConv2d, WHVILinear
from whvi.predictive import Ensemble
from whvi_paper.baselines import GaussianFactorsLinear, TensorFactorisedLinear

Data = tuple[Tensor, Tensor]
COUNT, STEPS = 3, 25


def mlp(*layers: nn.Module) -> nn.Sequential:
    first, *rest = layers
    return nn.Sequential(first, *(part for layer in rest for part in (nn.ReLU(), layer)))


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{
        posterior: lambda posterior=posterior: mlp(WHVILinear(3, 8, posterior=posterior), MeanFieldLinear(8, 1))
        for posterior in ("diagonal", "low_rank:2", "full", "planar:2", "planar:2:full")
    },
    "inferred scales": lambda: mlp(WHVILinear(3, 8, scales="diagonal"), WHVIColumn(8)),
    "mean field": lambda: mlp(MeanFieldLinear(3, 8), MeanFieldLinear(8, 1)),
    "one draw for a batch": lambda: mlp(WHVILinear(3, 8, draws="batch"), MeanFieldLinear(8, 1, draws="batch")),
    "dropout": lambda: mlp(nn.Linear(3, 8), MCDropout(nn.Linear(8, 1), p=0.3)),
    "products": lambda: mlp(TensorFactorisedLinear(3, 8), GaussianFactorsLinear(8, 1, rank=2)),
    "plain": lambda: mlp(nn.Linear(3, 8), nn.Linear(8, 1)),
    "normalised": lambda: mlp(nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), WHVILinear(8, 1)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 1, 3)), WHVIConv2d(1, 4, 1), nn.Flatten(), MeanFieldLinear(12, 1)
    ),
}


def problem(
    make: Callable[[], nn.Module], sizes: tuple[int, ...]
) -> tuple[list[nn.Module], list[Likelihood], list[Data]]:
    torch.manual_seed(1)
    models = [make().double() for _ in sizes]
    likelihoods: list[Likelihood] = [Gaussian(frozen_steps=5).double() for _ in sizes]
    data = []
    for size in sizes:
        x = torch.randn(size, 3).double()
        data.append((x, x.sum(1, keepdim=True).sin()))
    return models, likelihoods, data


def close(one: nn.Module, other: nn.Module, tolerance: float = 1e-9) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))
def test_a_replica_ends_where_its_model_ends_alone(make: Callable[[], nn.Module]) -> None:
    """Different data of different lengths, different seeds and rates, clipping: in float64, to nine digits."""
    sizes, seeds, rates = (30, 41, 30), (7, 8, 9), (1e-2, 3e-3, 1e-2)
    models, likelihoods, data = problem(make, sizes)
    twins, twin_likelihoods = copy.deepcopy((models, likelihoods))
    settings = [SVI(rate, clip=50.0) for rate in rates]
    start = [copy.deepcopy(model) for model in models]
    result = fit_replicas(models, likelihoods, data, steps=STEPS, algorithm=settings, batch_size=16, seeds=seeds)
    for r in range(COUNT):
        alone = fit(
            twins[r],
            twin_likelihoods[r],
            data[r],
            steps=STEPS,
            algorithm=settings[r],
            batch_size=16,
            seed=seeds[r],
        )
        close(models[r], twins[r])
        close(likelihoods[r], twin_likelihoods[r])
        for replica, single in zip(result.history.elbo, alone.history.elbo, strict=True):
            assert replica[r] == pytest.approx(single, rel=1e-9)
        with pytest.raises(AssertionError):
            close(models[r], start[r])  # it did learn


class Shared(nn.Module):
    """A layer with two names, a parameter in two layers, and a likelihood of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.again = WHVILinear(3, 3)
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.last = MeanFieldLinear(3, 1)
        self.likelihood = Gaussian(frozen_steps=5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.other(self.one(self.again(self.first(x).relu()).relu()).relu()))
        return y


@pytest.mark.parametrize("algorithm", [SVI(1e-2), SVI(1e-2, samples=2)])
def test_shared_layers_tied_parameters_and_a_likelihood_inside(algorithm: SVI) -> None:
    models, _, data = problem(Shared, (30, 30))
    likelihoods = [model.likelihood for model in models]
    twins = copy.deepcopy(models)
    fit_replicas(models, likelihoods, data, steps=STEPS, algorithm=algorithm)
    for r, (model, twin) in enumerate(zip(models, twins, strict=True)):
        fit(twin, twin.likelihood, data[r], steps=STEPS, algorithm=algorithm, seed=r)
        close(model, twin)
        assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
        assert model.again is model.first


def test_many_draws_in_a_step() -> None:
    """More seeds than a step is given at first: it is begun again, and counts once."""

    def make() -> nn.Module:
        return nn.Sequential(
            nn.BatchNorm1d(3), WHVILinear(3, 2), *(WHVILinear(2, 2) for _ in range(30)), nn.Linear(2, 1)
        )

    models, likelihoods, data = problem(make, (20, 20))
    twin, twin_likelihood = copy.deepcopy((models[1], likelihoods[1]))
    fit_replicas(models, likelihoods, data, steps=2)
    fit(twin, twin_likelihood, data[1], steps=2, seed=1)
    close(models[1], twin)
    assert int(models[1][0].num_batches_tracked) == 2


def test_an_error_of_the_model_is_its_own() -> None:
    class Broken(nn.Linear):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            Broken.calls += 1
            return [super().forward(x)][1]

    models, likelihoods, data = problem(lambda: Broken(3, 1), (20, 20))
    with pytest.raises(IndexError, match="list index out of range"):
        fit_replicas(models, likelihoods, data, steps=2)
    assert Broken.calls == 1


def test_weight_decay_does_not_thaw_the_noise() -> None:
    models, _, data = problem(MODELS["plain"], (20, 20))
    likelihoods = [Gaussian(frozen_steps=100).double() for _ in models]
    alone, start = Gaussian(frozen_steps=100).double(), likelihoods[0].noise
    settings = SVI(1e-2, optimizer=partial(torch.optim.AdamW, weight_decay=0.5))
    fit_replicas(models, likelihoods, data, steps=20, algorithm=settings)
    fit(MODELS["plain"]().double(), alone, data[0], steps=20, algorithm=settings)
    assert [likelihood.noise for likelihood in (*likelihoods, alone)] == [start] * 3


def test_callbacks_and_interruptions_see_the_models_as_they_are() -> None:
    models, likelihoods, data = problem(MODELS["plain"], (20, 20))
    seen = []

    def callback(moment: Moment) -> None:
        seen.append([p.detach().clone() for p in models[0].parameters()])
        if moment.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_replicas(models, likelihoods, data, steps=50, callbacks=[Every(2, callback), History(100)])
    assert not torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[-1][0], next(models[0].parameters()))


def test_classes_and_samples() -> None:
    torch.manual_seed(0)
    models = [mlp(WHVILinear(3, 8), MeanFieldLinear(8, 4)).double() for _ in range(2)]
    twins = copy.deepcopy(models)
    x = torch.randn(50, 3).double()
    data = [(x, (x[:, i] > 0).long() + 2 * (x[:, 2] > 0).long()) for i in range(2)]
    settings = SVI(1e-2, samples=3)
    fit_replicas(models, [Categorical(4) for _ in models], data, steps=STEPS, algorithm=settings)
    for r, twin in enumerate(twins):
        fit(twin, Categorical(4), data[r], steps=STEPS, algorithm=settings, seed=r)
        close(models[r], twin)


def test_replicas_resume_in_the_same_bits(tmp_path: Path) -> None:
    def run(steps: int, folder: Path | None) -> list[nn.Module]:
        models, likelihoods, data = problem(MODELS["normalised"], (30, 30))
        saving = [] if folder is None else [Checkpoint(folder, 4)]
        fit_replicas(models, likelihoods, data, steps=steps, batch_size=8, callbacks=saving)
        return models

    whole = run(20, None)
    run(9, tmp_path)
    for one, other in zip(whole, run(20, tmp_path), strict=True):
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(a, b)


def test_the_posterior_is_an_ensemble_of_all() -> None:
    models, likelihoods, data = problem(MODELS["plain"], (30, 30, 30))
    result = fit_replicas(models, likelihoods, data, steps=5)
    assert isinstance(result.posterior, Ensemble)
    assert len(result.posterior) == 3
    assert result.history.noise[-1] == [likelihood.noise for likelihood in likelihoods]


def test_a_deep_ensemble_is_replicas_of_map_and_warns() -> None:
    models, likelihoods, data = problem(MODELS["plain"], (30, 30))
    twin, twin_likelihood = copy.deepcopy((models[1], likelihoods[1]))
    with pytest.warns(DeprecationWarning, match="use fit_ensemble"):
        deep_ensemble(models, likelihoods, data[0], steps=STEPS)
    fit(twin, twin_likelihood, data[0], steps=STEPS, algorithm=MAP(), seed=1)
    close(models[1], twin)
    with pytest.raises(AssertionError):
        close(models[0], models[1])


def test_rates_and_schedules_are_each_ones_own() -> None:
    models, likelihoods, data = problem(MODELS["plain"], (20, 20))
    start = copy.deepcopy(models)
    settings = [SVI(1e-2, schedule=PowerDecay()), SVI(1e-2, schedule=lambda step: 0.0)]
    fit_replicas(models, likelihoods, data, steps=3, algorithm=settings)
    close(models[1], start[1])
    with pytest.raises(AssertionError):
        close(models[0], start[0])


def test_a_callback_sees_the_run() -> None:
    models, likelihoods, data = problem(MODELS["plain"], (20, 20))
    steps: list[int] = []

    def callback(moment: Moment) -> bool:
        steps.append(moment.step)
        return moment.step == 6

    result = fit_replicas(models, likelihoods, data, steps=50, callbacks=[Every(3, callback)])
    assert steps == [3, 6]
    assert result.history.stopped == "callback"


def bad_calls() -> dict[str, tuple[Callable[[], object], str]]:
    models, likelihoods, data = problem(MODELS["plain"], (20, 20))
    wide, *_ = problem(lambda: mlp(nn.Linear(3, 9), nn.Linear(9, 1)), (20,))
    x, y = data[0]
    other = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    tight = [MeanFieldLinear(3, 1, prior_variance=v).double() for v in (1.0, 0.1)]
    common = nn.Linear(3, 8).double()
    entangled = [mlp(common, nn.Linear(8, 1).double()) for _ in range(2)]

    def call(
        m: object = models, like: object = likelihoods, d: object = data, **options: object
    ) -> Callable[[], object]:
        return lambda: fit_replicas(m, like, d, **{"steps": 2, **options})  # type: ignore[arg-type]

    return {
        "none": (call([], [], []), "0, 0, 0"),
        "too few likelihoods": (call(like=likelihoods[:1]), "2, 1, 2"),
        "too few seeds": (call(seeds=[1]), "and 1 of them"),
        "one model twice": (call([models[0]] * 2), "copy.deepcopy"),
        "one likelihood twice": (call(like=[likelihoods[0]] * 2), "copy.deepcopy"),
        "shapes": (call([models[0], wide[0]]), r"model.0.out_features was 8 and is 9"),
        "rows": (call(d=[(x, y), (x[:, :2], y)]), "one shape"),
        "priors": (call(tight), "prior"),
        "activations": (call([models[0], other]), "model.1.class was 'ReLU' and is 'Tanh'"),
        "frozen steps": (call(like=[likelihoods[0], Gaussian()]), "frozen_steps was 5 and is 0"),
        "shared parameters": (call(entangled), "copy.deepcopy"),
        "settings": (call(algorithm=[SVI(), SVI(clip=1.0)]), "learning_rate and schedule only"),
        "algorithm": (call(algorithm="adam"), r"algorithm must be one such as SVI\(\).*got str"),
        "first offender": (
            call(algorithm=[SVI(), "adam"]),
            r"each item one such as SVI\(\).*got list",
        ),
        "nan": (call(d=[(x, y), (x * float("nan"), y)]), "NaN"),
        "not a model": (call([models[0], "model"]), "nn.Module"),
    }


@pytest.mark.parametrize("case", bad_calls())
def test_bad_calls_are_explained(case: str) -> None:
    call, message = bad_calls()[case]
    with pytest.raises(WhviError, match=message):
        call()
