"""Noisy K-FAC against posteriors that are known exactly, on small networks, and as a run that can be stopped."""

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi.inference.elbo import elbo
from whvi.inference.schedules import PowerDecay
from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.nn import WHVILinear, mean_mode, sampling
from whvi_paper.baselines import MatrixGaussianConv2d, MatrixGaussianLinear
from whvi_paper.baselines.matrix_gaussian import MatrixGaussian
from whvi_paper.baselines.noisy_kfac import curvature
from whvi_paper.baselines.noisy_kfac.algorithm import NoisyKFAC
from whvi_paper.baselines.noisy_kfac.natural import NaturalSteps, _move

F64: dict[str, Any] = {"dtype": torch.float64}
OUTPUTS = 3
EMPIRICAL: dict[str, Any] = {
    "fisher": "empirical", "decay": 0.95, "learning_rate": 0.3, "schedule": lambda step: 1.0 if step < 700 else 0.1,
}  # fmt: skip
"""Far from the data the squares of the real gradients are large, so that the steps are small and more are needed."""


class Exact(NamedTuple):
    """A posterior of [W b]: rows are independent and have one covariance."""

    mean: Tensor
    covariance: Tensor


def exact_posterior(rows: Tensor, y: Tensor, noise: float, prior: float, kl_weight: float = 1.0) -> Exact:
    """Of y = W row + noise under W ~ N(0, prior), with the likelihood to the power 1 / kl_weight."""
    precision = rows.mT @ rows / (noise * kl_weight) + torch.eye(rows.shape[-1], **F64) / prior
    covariance = torch.linalg.inv(precision).contiguous()
    return Exact((covariance @ rows.mT @ y / (noise * kl_weight)).mT, covariance)


def train(
    settings: NoisyKFAC, model: nn.Module, likelihood: Likelihood, x: Tensor, y: Tensor, steps: int, batch: int = 0
) -> None:
    run = settings.init(model, likelihood, len(x))
    for step in range(steps):
        chosen = torch.randperm(len(x))[:batch] if batch else slice(None)
        run.update(x[chosen], y[chosen], step)


def error(actual: Tensor, expected: Tensor) -> float:
    """Relative, in the Frobenius norm."""
    return float((actual - expected).norm() / expected.norm())


def covariance_of(layer: MatrixGaussian, group: int = 0) -> Tensor:
    left, right = layer.output_root[group], layer.input_root[group]
    return torch.kron(left @ left.mT, right @ right.mT)


def steady(**options: Any) -> NoisyKFAC:
    """Steps that settle: nearly those of Newton, and averages over more of them."""
    rates: dict[str, Any] = {"learning_rate": 0.2, "schedule": PowerDecay(0.05, 1.0), "momentum": 0.0, "damping": 0.0}
    return NoisyKFAC(**{**rates, "clip": None, "decay": 0.998, **options})


@pytest.mark.parametrize(
    ("options", "steps", "batch"),
    [({}, 400, 0), (EMPIRICAL, 1000, 0), ({"kl_weight": 0.3}, 400, 0), ({"moments_every": 2}, 800, 400)],
    ids=["true", "empirical", "tempered", "batches"],
)
def test_it_finds_a_posterior_of_its_family(options: dict[str, Any], steps: int, batch: int) -> None:
    """Linear regression with several outputs: mean and covariance within 5 %, the mean within half its deviation."""
    count, noise, prior = 4000, 0.05, 2.0
    x = torch.randn(count, 4, **F64) @ (torch.eye(4, **F64) + 0.2 * torch.randn(4, 4, **F64)) + 0.3
    rows = torch.cat((x, torch.ones(count, 1, **F64)), -1)
    y = rows @ torch.randn(5, OUTPUTS, **F64) + noise**0.5 * torch.randn(count, OUTPUTS, **F64)
    expected = exact_posterior(rows, y, noise, prior, options.get("kl_weight", 1.0))
    layer = MatrixGaussianLinear(4, OUTPUTS, prior_variance=prior, **F64)
    train(steady(**options), layer, Gaussian(OUTPUTS, variance=noise, learned=False), x, y, steps, batch)
    deviation = expected.covariance.diagonal().sqrt()
    assert error(layer.mean.detach(), expected.mean) < 0.05
    assert float(((layer.mean.detach() - expected.mean) / deviation).abs().max()) < 0.5
    assert error(covariance_of(layer), torch.kron(torch.eye(OUTPUTS, **F64), expected.covariance)) < 0.05


@pytest.mark.parametrize("count", [40, 40_000])
def test_what_the_factored_damping_costs(count: int) -> None:
    """Isotropic inputs: variances are too small by (a s + c) / (sqrt(a s) + sqrt(c))^2; the mean is right all the same.

    With few data and a narrow prior that is much, with many it is nothing.
    """
    noise, prior, size = 0.5, 0.1, 0.8
    x = torch.linalg.qr(torch.randn(count, 4, **F64)).Q.contiguous() * sqrt(size * count)
    y = x @ torch.randn(4, OUTPUTS, **F64) + noise**0.5 * torch.randn(count, OUTPUTS, **F64)
    expected = exact_posterior(x, y, noise, prior)
    layer = MatrixGaussianLinear(4, OUTPUTS, False, prior_variance=prior, **F64)
    likelihood = Gaussian(OUTPUTS, variance=noise, learned=False)
    train(steady(decay=0.9995), layer, likelihood, x, y, 1000 if count < 100 else 100)
    curvature, intrinsic = size / noise, 1.0 / (count * prior)
    shrink = (curvature + intrinsic) / (sqrt(curvature) + sqrt(intrinsic)) ** 2
    assert (shrink < 0.6) if count < 100 else (shrink > 0.95)
    exact = torch.kron(torch.eye(OUTPUTS, **F64), expected.covariance)
    assert error(covariance_of(layer), shrink * exact) < 0.03
    assert float(((layer.mean.detach() - expected.mean) / expected.covariance[0, 0].sqrt()).abs().max()) < 0.5


@pytest.mark.parametrize("groups", [1, 2])
def test_it_finds_the_posterior_of_a_convolution(groups: int) -> None:
    """Each pixel of the output is a target: the curvature of a row is a sum over positions."""
    count, noise, prior = 500, 0.2, 3.0
    layer = MatrixGaussianConv2d(2, 4, 2, padding=1, groups=groups, prior_variance=prior, **F64)
    x = torch.randn(count, 2, 3, 4, **F64)
    truth = nn.Conv2d(2, 4, 2, padding=1, groups=groups, **F64)
    y = truth(x).detach() + noise**0.5 * torch.randn(count, 4, 4, 5, **F64)
    model = nn.Sequential(layer, nn.Flatten())
    train(steady(), model, Gaussian(80, variance=noise, learned=False), x, y.flatten(1), 150)
    for group, (rows, targets) in enumerate(zip(layer.input_rows(x), layer.output_rows(y), strict=True)):
        expected = exact_posterior(rows, targets, noise, prior)
        mean = layer.mean.detach().unflatten(0, (groups, -1))[group]
        assert error(mean, expected.mean) < 0.05
        assert float(((mean - expected.mean) / expected.covariance.diagonal().sqrt()).abs().max()) < 0.5
        exact = torch.kron(torch.eye(4 // groups, **F64), expected.covariance)
        assert error(covariance_of(layer, group), exact) < 0.05


def mlp(outputs: int = 1) -> nn.Module:
    return nn.Sequential(
        MatrixGaussianLinear(3, 24), nn.ReLU(inplace=True), MatrixGaussianLinear(24, 24), nn.ReLU(),
        MatrixGaussianLinear(24, outputs),
    )  # fmt: skip


def curve(count: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 3)
    return x, (2.0 * x[:, :1]).sin() + 0.5 * x[:, 1:2].square() * x[:, 2:] + 0.1 * torch.randn(count, 1)


def test_it_trains_a_network() -> None:
    (x, y), (new_x, new_y) = curve(400), curve(400)
    model, likelihood = mlp(), Gaussian()
    noise = likelihood.noise
    train(NoisyKFAC(adam_learning_rate=0.01), model, likelihood, x, y, 800, batch=64)
    with torch.no_grad(), sampling(model, 16):
        f = model(new_x.repeat(16, 1)).unflatten(0, (16, -1))
    assert float((f.mean(0) - new_y).square().mean().sqrt()) < 0.5 * float(new_y.std())
    assert 0.02 < float(f.std(0).mean()) < 0.5
    assert likelihood.noise != noise


def test_it_trains_a_convolutional_classifier() -> None:
    """Bars across and bars down, at random places, in noise."""
    labels = torch.arange(600) % 2
    x = 0.5 * torch.randn(600, 1, 8, 8)
    place = torch.randint(8, (600,))
    for image, label, at in zip(x, labels.tolist(), place.tolist(), strict=True):
        (image[0] if label else image[0].mT)[at] += 1.0
    model = nn.Sequential(
        MatrixGaussianConv2d(1, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        MatrixGaussianConv2d(6, 6, 3, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        MatrixGaussianLinear(6, 2),
    )  # fmt: skip
    train(NoisyKFAC(learning_rate=0.03), model, Categorical(2), x[:400], labels[:400], 300, batch=64)
    with torch.no_grad(), mean_mode(model):
        found = model(x[400:]).argmax(-1)
    assert float((found == labels[400:]).double().mean()) > 0.9


class Mixed(nn.Module):
    """Layers of several kinds, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared = nn.Linear(3, 8), MatrixGaussianLinear(8, 8, draws="example")
        self.norm, self.last = nn.BatchNorm1d(8), WHVILinear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.shared(self.first(x).tanh()).tanh())
        output: Tensor = self.last(self.shared(h).tanh())
        return output


@pytest.mark.parametrize("make", [mlp, Mixed])
def test_a_run_that_is_resumed_is_the_same_run(make: Callable[[], nn.Module]) -> None:
    """To the bit, from the state of model and likelihood and what the run gives, between two updates of inverses."""
    x, y = curve(60)
    settings = NoisyKFAC(update_every=7, moments_every=2)

    def go(start: int, end: int, before: Any = None) -> Any:
        torch.manual_seed(3)
        model, likelihood = make(), Gaussian(frozen_steps=4)
        run = settings.init(model, likelihood, len(x))
        if before is not None:
            model.load_state_dict(before[0])
            likelihood.load_state_dict(before[1])
            run.restore(*before[2:])
        for step in range(start, end):
            torch.manual_seed(step)
            rows = torch.randperm(len(x))[:20]
            run.update(x[rows], y[rows], step)
        tensors = {name: value.clone() for name, value in run.tensors().items()}
        return model.state_dict(), likelihood.state_dict(), tensors, run.numbers()

    whole, parts = go(0, 20), go(10, 20, go(0, 10))
    for one, other in zip(whole[:3], parts[:3], strict=True):
        assert set(one) == set(other)
        assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert whole[3] == parts[3]
    assert not torch.equal(whole[2][next(iter(whole[2]))], go(0, 10)[2][next(iter(whole[2]))])


def test_all_that_is_learned_moves_and_the_rest_does_not() -> None:
    x, y = curve(50)
    model, likelihood = Mixed(), Gaussian(frozen_steps=3)
    model.first.bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    start = likelihood.log_variance.detach().clone()
    run = NoisyKFAC().init(model, likelihood, 50)
    for step in range(4):
        assert torch.equal(likelihood.log_variance, start)
        run.update(x, y, step)
    assert not torch.equal(likelihood.log_variance, start)
    same = [name for name, value in model.state_dict().items() if torch.equal(value, before[name])]
    assert same == ["first.bias"]
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_terms_are_those_of_the_bound() -> None:
    x, y = curve(10)
    model, likelihood = mlp(), Gaussian()
    torch.manual_seed(5)
    log_likelihood, distance = elbo(model, likelihood, x, y, n_data=70)
    torch.manual_seed(5)
    terms = NoisyKFAC().init(model, likelihood, 70).update(x, y, 0)
    torch.testing.assert_close(terms.log_likelihood, log_likelihood.detach())
    torch.testing.assert_close(terms.kl, distance.detach())


def one_step(**options: Any) -> tuple[MatrixGaussianLinear, Tensor, Any]:
    """A layer after one step from a fixed start, the move of its mean, and the run."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 4, **F64), torch.randn(30, OUTPUTS, **F64)
    layer = MatrixGaussianLinear(4, OUTPUTS, **F64)
    before = layer.mean.detach().clone()
    run = NoisyKFAC(momentum=0.0, schedule=1.0, **options).init(layer, Gaussian(OUTPUTS, learned=False), 30)
    run.update(x, y, 0)
    return layer, layer.mean.detach() - before, run


def test_damping_is_for_the_steps_and_not_for_the_posterior() -> None:
    (plain, long, _), (damped, short, _) = one_step(damping=0.0, clip=None), one_step(damping=10.0, clip=None)
    assert torch.equal(covariance_of(plain), covariance_of(damped))
    assert short.norm() < 0.5 * long.norm()


def test_a_step_is_no_longer_than_the_clip() -> None:
    for clip, bound in ((1e-6, True), (1e6, False)):
        _, step, run = one_step(clip=clip)
        state = run.tensors()
        inverse = torch.kron(state["output_inverse."][0], state["input_inverse."][0])
        square = float(step.flatten() @ torch.linalg.solve(inverse, step.flatten()))
        assert (square == pytest.approx(clip)) if bound else (square < clip)


def test_changes_in_place_do_not_reach_the_curvature() -> None:
    x, y = curve(40)
    moments = []
    for inplace in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(MatrixGaussianLinear(3, 8), nn.ReLU(inplace), MatrixGaussianLinear(8, 1))
        NoisyKFAC().init(model, Gaussian(), 40).update(x, y, 0)
        moments.append(model[0].output_moment)
    assert torch.equal(*moments)


def test_a_layer_that_nothing_reaches_has_the_prior_as_posterior() -> None:
    x, y = curve(40)
    model = nn.Sequential(
        MatrixGaussianLinear(3, 4, prior_variance=0.3, **F64), nn.Threshold(1e9, 0.0), nn.Linear(4, 1)
    )
    model = model.double()
    run = NoisyKFAC(decay=0.0).init(model, Gaussian(), 40)
    model[0].output_moment.zero_()
    run.update(x.double(), y.double(), 0)
    torch.testing.assert_close(covariance_of(model[0]), 0.3 * torch.eye(16, **F64), rtol=0.0, atol=1e-5)


def test_the_state_of_an_older_checkpoint_is_taken() -> None:
    """It had the Cholesky factors of what there are inverses of now."""
    model, likelihood = mlp(), Gaussian()
    run = NoisyKFAC().init(model, likelihood, 40)
    run.update(*curve(40), 0)
    state = {name: value.clone() for name, value in run.tensors().items()}
    older = {
        name.replace("_inverse.", "_factor."): torch.linalg.cholesky(value.double().inverse())
        if "_inverse." in name
        else value
        for name, value in state.items()
    }
    assert set(older) != set(state)
    again = NoisyKFAC().init(model, likelihood, 40)
    again.restore(older, run.numbers())
    torch.testing.assert_close(again.tensors(), state)


def test_all_numbers_of_the_steps_are_where_the_layers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device without values, which refuses to meet another as CUDA does: what asks for values is left out."""
    monkeypatch.setattr(curvature, "_refuse", lambda *_: None)
    monkeypatch.setattr(curvature.Curvature, "_start", lambda _: None)
    for front in ((), (2,)):
        layer = MatrixGaussianLinear(4, OUTPUTS, device="meta")
        tensors = {name: getattr(layer, name).expand(*front, -1, -1, -1).clone() for name in curvature.BUFFERS}
        mean = layer.mean.detach().expand(*front, -1, -1).clone()
        count = torch.full(front, 30.0, **F64)
        each = curvature.Curvature(layer, mean, tensors, 1.0 / count)
        steps = NaturalSteps(NoisyKFAC(), {"": each}, [], [], count, count)
        x, gradient = (torch.empty(*front, 30, size, device="meta") for size in (4, OUTPUTS))
        each.observe([(x, gradient)], 30, 0.1)
        each.refresh(0.1)
        assert (each.kl() / steps.n_data).shape == front
        _move([each], [torch.empty_like(mean)], steps.rates, 0.9, 1e-3)


@pytest.mark.parametrize("name", ["", "0"])
def test_curvature_that_cannot_be_divided_by_says_so(name: str) -> None:
    layer = MatrixGaussianLinear(2, 1, False)
    run = NoisyKFAC(update_every=1).init(nn.Sequential(layer) if name else layer, Gaussian(), 40)
    layer.input_moment.copy_(torch.tensor([[1.0, 1e4], [1e4, 1.0]]))
    place = f"layer '{name}'" if name else "the model"
    with pytest.raises(ArgumentError, match=f"curvature of {place} is not positive definite: standardise the inputs"):
        run.update(torch.randn(40, 2), torch.randn(40, 1), 0)


def test_a_spread_that_cannot_be_inverted_is_refused_only_where_it_is_needed() -> None:
    layer = MatrixGaussianLinear(2, 1)
    layer.input_root.zero_()
    with pytest.raises(ArgumentError, match="spread of the model has no inverse"):
        NoisyKFAC().init(layer, Gaussian(), 40)
    layer.input_moment.copy_(torch.eye(3))
    NoisyKFAC().init(layer, Gaussian(), 40)
    assert torch.equal(layer.input_moment[0], torch.eye(3))


def test_a_run_that_diverges_says_so() -> None:
    x, y = curve(40)
    run = NoisyKFAC(update_every=1).init(mlp(), Gaussian(), 40)
    run.update(x, y * float("inf"), 0)
    with pytest.raises(ArgumentError, match=r"curvature of layer '\d' is not finite.*reduce learning_rate"):
        run.update(x, y, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"kl_weight": -1.0}, "kl_weight must be positive"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"adam_learning_rate": float("inf")}, "adam_learning_rate must be positive and finite"),
        ({"momentum": 1.0}, "momentum must be at least 0 and less than 1, got 1.0"),
        ({"decay": -0.1}, "decay must be"),
        ({"damping": -1.0}, "damping must be finite and not negative"),
        ({"fisher": "exact"}, "fisher must be one of true, empirical, got 'exact'"),
        ({"update_every": 0}, "update_every must be at least 1"),
        ({"moments_every": 0}, "moments_every must be at least 1"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        NoisyKFAC(**options)


def test_a_model_without_its_layers_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no layer for noisy K-FAC to train"):
        NoisyKFAC().init(nn.Linear(2, 1), Gaussian(), 10)
