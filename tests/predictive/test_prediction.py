"""Laws of a prediction: its density, quantiles, draws and entropies agree with each other and with explicit sums."""

from collections.abc import Callable
from math import e, log, pi, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor, nn
from torch.distributions import Categorical as Choice
from torch.distributions import MixtureSameFamily, Normal

from whvi.errors import ArgumentError, DivergenceError, InputTypeError, ShapeError, UnsupportedError, WhviError
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, WHVILinear
from whvi.predictive import Ensemble, Prediction, predict
from whvi.predictive.mixture import gaussian_entropy, quantile, root
from whvi.predictive.state import Snapshot

ROWS = 6


def network(features: int) -> nn.Module:
    layers = WHVILinear(3, 16), nn.ReLU(), WHVILinear(16, features)
    return nn.Sequential(*layers).double().eval()


def made(likelihood: Likelihood | None, samples: int = 37, features: int = 2) -> Prediction:
    features = features if likelihood is None else likelihood.features
    x = torch.randn(ROWS, 3, dtype=torch.float64)
    return predict(network(features), x, samples, likelihood=likelihood, seed=1, batch_rows=4)


TARGETS = {
    "gaussian": (Gaussian(2, "output"), torch.randn(ROWS, 2)),
    "input noise": (Gaussian(1, "input"), torch.randn(ROWS)),
    "categorical": (Categorical(3), torch.randint(3, (ROWS,))),
    "bernoulli": (Bernoulli(2), torch.randint(2, (ROWS, 2))),
}


@pytest.mark.parametrize("name", TARGETS)
def test_densities_are_explicit_sums_over_functions(name: str) -> None:
    likelihood, y = TARGETS[name]
    prediction = made(likelihood)
    each = likelihood.log_prob(prediction.samples(), likelihood.targets(y)).detach()
    expected = each.logsumexp(0) - log(37)
    torch.testing.assert_close(prediction.log_prob(y), expected)
    torch.testing.assert_close(prediction.expected_log_prob(y), each.mean(0))
    torch.testing.assert_close(prediction.mnll(y), -expected.mean())
    torch.testing.assert_close(prediction.expected_nll(y), -each.mean())
    assert (prediction.expected_log_prob(y) <= prediction.log_prob(y)).all()  # Jensen
    assert prediction.expected_nll(y) > prediction.mnll(y)


def test_densities_do_not_underflow() -> None:
    prediction = made(Gaussian(1, variance=1e-4))
    far = torch.full((ROWS,), 1e3, dtype=torch.float64)
    assert prediction.log_prob(far).isfinite().all()
    assert (prediction.log_prob(far) < -1e6).all()


@pytest.mark.parametrize("name", ["gaussian", "input noise"])
def test_quantiles_invert_the_distribution_function(name: str) -> None:
    prediction = made(TARGETS[name][0])
    levels = (1e-4, 0.025, 0.5, 0.9, 0.999)
    quantiles = prediction.quantile(levels)
    assert quantiles.shape == (5, *prediction.mean.shape)
    assert (quantiles.diff(dim=0) > 0).all()
    for level, value in zip(levels, quantiles, strict=True):
        torch.testing.assert_close(prediction.cdf(value), torch.full_like(value, level), rtol=0, atol=1e-10)
    torch.testing.assert_close(prediction.quantile(0.9), quantiles[3], rtol=0, atol=0)
    low, high = prediction.interval(0.95)
    torch.testing.assert_close(prediction.cdf(high) - prediction.cdf(low), torch.full_like(low, 0.95))
    torch.testing.assert_close(low, quantiles[1])


def test_quantiles_of_modes_that_are_far_apart() -> None:
    f = torch.tensor([-1e6, 0.0, 1e6], dtype=torch.float64).reshape(3, 1, 1)
    likelihood = Gaussian(variance=1e-6, learned=False)
    middle = quantile(f, likelihood, 0.5)
    torch.testing.assert_close(middle, torch.zeros(1, 1, dtype=torch.float64), rtol=0, atol=1e-9)
    upper = quantile(f, likelihood, 5 / 6)
    torch.testing.assert_close(upper, torch.full((1, 1), 1e6, dtype=torch.float64), rtol=0, atol=1e-6)


LEVELS = (1e-300, 1e-12, 1e-9, 0.025, 0.5, 0.975, 1 - 1e-9, 1 - 1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_of_far_tails(level: float) -> None:
    f = torch.tensor([[[3.0], [-200.0]]], dtype=torch.float64)
    likelihood = Gaussian(learned=False).double()
    likelihood.log_variance.fill_(log(4.0))
    found = quantile(f, likelihood, level).flatten()
    expected = torch.tensor([3.0, -200.0], dtype=torch.float64) + 2.0 * norm.ppf(level)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("level", LEVELS)
def test_quantiles_of_far_tails_of_mixtures(level: float) -> None:
    f = torch.tensor([-1.0, 0.5, 4.0], dtype=torch.float64)
    found = quantile(f.reshape(3, 1, 1), Gaussian(variance=1.0, learned=False).double(), level).item()
    centres = f.numpy()
    law, wanted = (norm.logcdf, level) if level <= 0.5 else (norm.logsf, 1 - level)
    expected = brentq(lambda y: np.logaddexp.reduce(law(y, centres)) - log(3 * wanted), -50, 50, xtol=1e-13)
    assert abs(found - expected) < 1e-9


def test_intervals_are_symmetric_to_the_last() -> None:
    layer = nn.Linear(1, 1).double()
    nn.init.zeros_(layer.bias)
    x = torch.zeros(1, 1, dtype=torch.float64)
    prediction = predict(layer, x, likelihood=Gaussian(variance=1.0).double())
    for level in (0.5, 0.95, 1 - 1e-9, 1 - 1e-15):
        low, high = prediction.interval(level)
        torch.testing.assert_close(low, -high, rtol=1e-12, atol=1e-12)
        assert high.item() == pytest.approx(norm.isf(0.5 - 0.5 * level), rel=1e-9)


def test_levels_are_any_kind_of_number() -> None:
    prediction = made(Gaussian(2))
    middle = prediction.quantile(0.5)
    for level in (np.float32(0.5), np.float64(0.5), np.array(0.5), torch.tensor(0.5)):
        assert torch.equal(prediction.quantile(level), middle)
        assert torch.equal(torch.stack(prediction.interval(level)), torch.stack(prediction.interval(0.5)))
    for levels in ([0.5], (np.float32(0.5),), np.array([0.5]), torch.tensor([0.5])):
        assert torch.equal(prediction.quantile(levels), middle.unsqueeze(0))


def test_roots_take_few_steps() -> None:
    calls = []

    def rising(t: Tensor) -> Tensor:
        calls.append(1)
        return torch.special.ndtr(t) - torch.linspace(0.001, 0.999, 99, dtype=torch.float64)

    ends = torch.full((99,), 40.0, dtype=torch.float64)
    found = root(rising, -ends, ends)
    expected = torch.special.ndtri(torch.linspace(0.001, 0.999, 99, dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)
    assert len(calls) < 25


def test_without_a_likelihood_everything_is_of_the_functions() -> None:
    prediction = made(None)
    f = prediction.samples()
    levels = [0.1, 0.5, 0.77]
    torch.testing.assert_close(
        prediction.quantile(levels), f.quantile(torch.tensor(levels, dtype=f.dtype), dim=0), rtol=0, atol=1e-14
    )
    y = torch.randn(ROWS, 2)
    torch.testing.assert_close(prediction.cdf(y), (f <= y).double().mean(0))
    torch.testing.assert_close(prediction.rmse(y), (f.mean(0) - y).square().mean().sqrt())
    assert (prediction.aleatoric == 0).all()
    for ask in (lambda: prediction.log_prob(y), lambda: prediction.entropy, lambda: prediction.sample_y(3)):
        with pytest.raises(UnsupportedError, match="without a likelihood"):
            ask()


@pytest.mark.parametrize("name", TARGETS)
def test_drawn_targets_have_the_moments(name: str) -> None:
    likelihood, _ = TARGETS[name]
    prediction, count = made(likelihood), 37 * 400
    y = prediction.sample_y(count)
    if isinstance(likelihood, Categorical):
        y = nn.functional.one_hot(y, 3).double()
    error = 4 * prediction.std / sqrt(count)
    assert ((y.mean(0) - prediction.mean).abs() < error).all()
    square = (y - prediction.mean).square()
    assert ((square.mean(0) - prediction.variance).abs() < 4 * square.std(0) / sqrt(count)).all()
    assert torch.equal(prediction.sample_y(5), prediction.sample_y(5))
    assert prediction.sample_y().shape[:2] == (37, ROWS)


def test_intervals_cover_drawn_targets() -> None:
    prediction, count = made(Gaussian(2)), 37 * 300
    y, (low, high) = prediction.sample_y(count), prediction.interval(0.8)
    share = ((low <= y) & (y <= high)).double().mean(0)
    assert ((share - 0.8).abs() < 4 * sqrt(0.8 * 0.2 / count)).all()


def test_probability_integral_transform_is_uniform() -> None:
    prediction, count = made(Gaussian(1), samples=16), 16 * 50
    values = torch.stack([prediction.cdf(y) for y in prediction.sample_y(count)]).flatten()
    assert abs(values.mean() - 0.5) < 4 * sqrt(1 / 12 / values.numel())
    assert abs(values.square().mean() - 1 / 3) < 4 * sqrt(4 / 45 / values.numel())


@pytest.mark.parametrize("likelihood", [Categorical(3), Bernoulli(), Gaussian(), Gaussian(1, "input")], ids=str)
def test_entropies(likelihood: Likelihood) -> None:
    prediction = made(likelihood)
    f = prediction.samples()
    inner = likelihood.entropy(f).detach().mean(0)
    assert (prediction.mutual_information > 0).all()
    torch.testing.assert_close(prediction.entropy - prediction.mutual_information, inner)
    # -log p at targets drawn from the law is an independent estimate
    count = 37 * 200
    each = likelihood.log_prob(f.unsqueeze(1).expand(-1, count, -1, -1), prediction.sample_y(count)).detach()
    surprise = log(37) - each.logsumexp(0)
    assert ((surprise.mean(0) - prediction.entropy).abs() < 4 * surprise.std(0) / sqrt(count)).all()


def test_what_several_outputs_tell_is_an_upper_bound() -> None:
    networks = [nn.Linear(1, 2) for _ in range(2)]
    for network_, bias in zip(networks, (3.0, -3.0), strict=True):
        nn.init.zeros_(network_.weight)
        nn.init.constant_(network_.bias, bias)
    prediction = predict(Ensemble(networks, Bernoulli(2)), torch.zeros(1, 1))
    p = torch.tensor([3.0, -3.0]).sigmoid()
    joint = torch.stack([torch.outer(q := torch.stack([1 - s, s]), q).flatten() for s in p])  # (functions, outcomes)
    information = torch.special.entr(joint.mean(0)).sum() - torch.special.entr(joint).sum(-1).mean()
    assert information < log(2) < prediction.mutual_information


@pytest.mark.parametrize("likelihood", [Gaussian(), Gaussian(1, "input"), Categorical(3), Bernoulli()], ids=str)
def test_what_diverged_has_no_entropy(likelihood: Likelihood) -> None:
    model = nn.Linear(2, likelihood.features)
    nn.init.constant_(model.bias, torch.nan)
    prediction = predict(model, torch.randn(3, 2), likelihood=likelihood)
    for ask in (lambda: prediction.entropy, lambda: prediction.mutual_information):
        with pytest.raises(DivergenceError, match="3 of 3 rows"):
            ask()


def test_one_function_tells_nothing_about_itself() -> None:
    for likelihood in (Categorical(3), Bernoulli(2), Gaussian(), Gaussian(1, "input")):
        information = made(likelihood, samples=1).mutual_information
        torch.testing.assert_close(information, torch.zeros_like(information), rtol=0, atol=1e-12)


def test_the_entropy_of_a_mixture_of_gaussians() -> None:
    likelihood = Gaussian(variance=0.25, learned=False).double()
    one = 0.5 * log(2 * pi * e * 0.25)
    f = torch.tensor([[0.0, -1000.0, 3.0], [0.0, 1000.0, 3.0]], dtype=torch.float64).unsqueeze(-1)
    expected = torch.tensor([one, one + log(2), one], dtype=torch.float64)
    torch.testing.assert_close(gaussian_entropy(f, likelihood), expected, rtol=1e-7, atol=0)
    tiny = Gaussian(variance=1e-12, learned=False).double()
    with pytest.raises(UnsupportedError, match="needs a grid of"):
        gaussian_entropy(f, tiny)


def test_the_law_is_that_of_torch_distributions() -> None:
    likelihood = Gaussian(2, "output", variance=0.3)
    prediction = made(likelihood)
    f = prediction.samples().movedim(0, -1)
    mixture = MixtureSameFamily(Choice(torch.ones(37, dtype=f.dtype)), Normal(f, sqrt(0.3)))
    torch.testing.assert_close(prediction.mean, mixture.mean)
    torch.testing.assert_close(prediction.variance, mixture.variance, rtol=1e-6, atol=0)
    y = torch.randn(ROWS, 2, dtype=torch.float64)
    torch.testing.assert_close(prediction.cdf(y), mixture.cdf(y), rtol=1e-6, atol=1e-8)


def gradient_step(model: nn.Module, x: Tensor, likelihood: Likelihood, **options: Any) -> None:
    optimizer = torch.optim.Adam(model.parameters(), **options)
    model(x).sum().backward()
    optimizer.step()


CHANGES = {
    "the model": gradient_step,
    "the likelihood": lambda model, x, likelihood: nn.init.zeros_(likelihood.log_variance),
    "x": lambda model, x, likelihood: x.add_(1.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_must_be_predicted_again(name: str) -> None:
    model, x, likelihood = network(1), torch.randn(4, 3, dtype=torch.float64), Gaussian()
    prediction = predict(model, x, 5, likelihood=likelihood)
    y, mean = torch.zeros(4), prediction.mean.clone()
    prediction.log_prob(y)
    CHANGES[name](model, x, likelihood)
    for ask in (lambda: prediction.log_prob(y), prediction.samples, prediction.interval):
        with pytest.raises(UnsupportedError, match=f"{name} has changed .* predict again"):
            ask()
    assert torch.equal(prediction.mean, mean)


@pytest.mark.parametrize("change", ["replace", "load", "dtype", "fused", "foreach", "data"])
def test_other_ways_to_change_a_model(change: str) -> None:
    model, x = network(1), torch.randn(4, 3, dtype=torch.float64)
    prediction = predict(model, x, 5)
    if change == "replace":
        model[0].g.mean = nn.Parameter(model[0].g.mean + 1)
    elif change == "load":
        model.load_state_dict(network(1).state_dict())
    elif change in ("fused", "foreach"):
        gradient_step(model, x, Gaussian(), **{change: True})
    elif change == "data":
        model[0].g.mean.data.add_(1.0)
    else:
        model.float()
    with pytest.raises(UnsupportedError, match="predict again"):
        prediction.samples()


def permute(tensor: Tensor) -> None:
    """In place, by a way that no version counts."""
    tensor.data = tensor.data.flip(0).clone() if tensor.ndim else tensor.data


class Counting(nn.Module):
    """It has settings of several kinds, and one that it sets itself."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.scales, self.options = 0, [1.0, 2.0], SimpleNamespace(power=1)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.scales[0] * x**self.options.power


def whole() -> nn.Sequential:
    torch.manual_seed(3)
    dropout = MCDropout(nn.Linear(3, 8), 0.2)
    return nn.Sequential(dropout, nn.BatchNorm1d(8), Counting(), nn.ReLU(), WHVILinear(8, 1)).eval()


def swap_rows(x: Tensor) -> None:
    rows = x.numpy()
    rows[[0, 3]] = rows[[3, 0]]


SETTINGS: dict[str, Callable[[nn.Sequential, Tensor], object]] = {
    "rows of the array behind x": lambda m, x: swap_rows(x),
    "order of a parameter": lambda m, x: m[4].g.mean.data.copy_(m[4].g.mean.data.flip(0)),
    "order of another storage": lambda m, x: permute(m[0].layer.weight),
    "a module": lambda m, x: m.__setitem__(3, nn.Tanh()),
    "a module more": lambda m, x: m.append(nn.Identity()),
    "a module of the same kind": lambda m, x: m.__setitem__(3, nn.ReLU()),
    "a hook": lambda m, x: m[3].register_forward_hook(lambda *_: _[2] * 2),
    "a hook before": lambda m, x: m.register_forward_pre_hook(lambda _, x: (x[0] * 2,)),
    "p": lambda m, x: setattr(m[0], "p", 0.5),
    "eps": lambda m, x: setattr(m[1], "eps", 0.5),
    "draws": lambda m, x: setattr(m[4], "draws", "batch"),
    "an item": lambda m, x: m[2].scales.__setitem__(0, 3.0),
    "an object": lambda m, x: setattr(m[2].options, "power", 2),
    "forward": lambda m, x: setattr(m[2], "forward", lambda x: -x),
    "class": lambda m, x: setattr(m[3], "__class__", nn.Tanh),
}


@pytest.mark.parametrize("change", SETTINGS)
def test_a_change_of_any_kind_is_seen(change: str) -> None:
    model, x, y = whole(), torch.from_numpy(np.arange(120, dtype=np.float32).reshape(40, 3) / 60 - 1), torch.zeros(40)
    prediction = predict(model, x, 5, likelihood=Gaussian(), seed=0)
    prediction.mnll(y)  # the model's own count of calls is no change
    prediction.mnll(y)
    SETTINGS[change](model, x)
    with pytest.raises(UnsupportedError, match=r"(x|the model) has changed .* predict again"):
        prediction.mnll(y)


@pytest.mark.parametrize("change", ["the architecture of an ensemble", "inputs of other flags", "likelihood"])
def test_changes_beside_the_model_are_seen(change: str) -> None:
    class Flagged(nn.Linear):
        def forward(self, x: Tensor, negative: bool = False) -> Tensor:
            return -super().forward(x) if negative else super().forward(x)

    likelihood = Gaussian()
    model: nn.Module = Flagged(3, 1)
    inputs: dict[str, Any] = {"x": torch.randn(4, 3), "negative": False}
    if change == "the architecture of an ensemble":
        model = Ensemble([nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1)) for _ in range(3)])
    x = inputs["x"] if isinstance(model, Ensemble) else inputs
    prediction = predict(model, x, likelihood=likelihood)
    if isinstance(model, Ensemble):
        model.architecture[1].eps = 0.5
    elif change == "likelihood":
        likelihood.kind = "output"
    else:
        inputs["negative"] = True
    with pytest.raises(UnsupportedError, match=r"has changed .*predict again"):
        prediction.mnll(torch.zeros(4))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.float32, torch.complex64, torch.complex128, torch.int64, torch.bool]
)
def test_content_of_every_kind_is_seen(dtype: torch.dtype) -> None:
    tensor = torch.ones(3, 4).to(dtype).T
    snapshot = Snapshot({"x": tensor})
    snapshot.check()
    tensor.data[2, 1] = 0  # a write that no version counts
    with pytest.raises(UnsupportedError, match="x has changed"):
        snapshot.check()


def test_what_is_not_a_number_equals_itself() -> None:
    Snapshot({"x": torch.tensor([torch.nan, torch.inf]), "nothing": torch.zeros(0, 3)}).check()
    x = torch.randn(10**5)
    snapshot, threads = Snapshot({"x": x}), torch.get_num_threads()
    torch.set_num_threads(threads + 1)  # sums of floats depend on it
    try:
        snapshot.check()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda p: p.quantile([]), ArgumentError, "at least one quantile"),
        (lambda p: p.quantile("0.5"), InputTypeError, "number or a sequence, got str"),
        (lambda p: p.quantile(None), InputTypeError, "number or a sequence, got NoneType"),
        (lambda p: p.quantile(["0.5"]), InputTypeError, "must be a number, got str"),
        (lambda p: p.quantile(torch.full((2, 2), 0.5)), InputTypeError, "must be a number, got Tensor"),
        (lambda p: p.quantile(float("nan")), ArgumentError, "between 0 and 1, got nan"),
        (lambda p: p.interval([0.5, 0.9]), InputTypeError, "level must be a number, got list"),
        (lambda p: p.log_prob(torch.zeros(5, 2)), ShapeError, "5 rows, but 6"),
        (lambda p: p.log_prob(torch.zeros(6)), ShapeError, r"\(rows, 2\)"),
        (lambda p: p.log_prob([0.0] * 6), InputTypeError, "torch.Tensor"),
        (lambda p: p.rmse(torch.full((6, 2), torch.nan)), ArgumentError, "6 of 6 rows"),
        (lambda p: p.quantile(1.0), ArgumentError, "between 0 and 1"),
        (lambda p: p.quantile([0.5, 0.0]), ArgumentError, "between 0 and 1"),
        (lambda p: p.interval(0.0), ArgumentError, "level must be between"),
        (lambda p: p.samples(0), ArgumentError, r"1 \.\.\. 37"),
        (lambda p: p.samples(38), ArgumentError, r"1 \.\.\. 37"),
        (lambda p: p.sample_y(0), ArgumentError, "count"),
        (lambda p: p.entropy, UnsupportedError, "there are 2"),
        (lambda p: p.mutual_information, UnsupportedError, "there are 2"),
    ],
)
def test_errors_say_what_is_wrong(ask: object, error: type[WhviError], message: str) -> None:
    with pytest.raises(error, match=message):
        ask(made(Gaussian(2)))


def test_classes_have_no_quantiles_and_no_distance() -> None:
    prediction = made(Categorical(3))
    with pytest.raises(UnsupportedError, match="no order"):
        prediction.quantile(0.5)
    with pytest.raises(UnsupportedError, match="brier"):
        prediction.rmse(torch.zeros(ROWS))


def test_members_have_their_own_noise() -> None:
    likelihoods = [Gaussian(2, "output", variance=v) for v in (0.1, 0.4, 2.5)]
    ensemble = Ensemble([network(2) for _ in range(3)], likelihoods)
    x, y = torch.randn(ROWS, 3, dtype=torch.float64), torch.randn(ROWS, 2)
    prediction = predict(ensemble, x, 6, seed=0)
    torch.testing.assert_close(prediction.aleatoric, torch.ones(ROWS, 2, dtype=torch.float64), rtol=1e-6, atol=0)
    f = prediction.samples()
    each = torch.stack([likelihoods[s % 3].log_prob(f[s], y) for s in range(6)]).detach()
    torch.testing.assert_close(prediction.log_prob(y), each.logsumexp(0) - log(6))
    torch.testing.assert_close(prediction.cdf(prediction.quantile(0.3)), torch.full_like(f[0], 0.3))
    drawn = prediction.sample_y(6 * 2500).unflatten(0, (-1, 6))
    variances = (drawn - f).square().mean((0, 2, 3))
    expected = torch.tensor([0.1, 0.4, 2.5, 0.1, 0.4, 2.5], dtype=torch.float64)
    torch.testing.assert_close(variances, expected, rtol=0.05, atol=0)
