"""Prediction without samples: through networks, to targets, as a module that can be exported."""

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, InputTypeError, ShapeError, UnsupportedError
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.nn.moments import Stage
from whvi.predictive import Ensemble, Moments, moments_of, predict, register_moments
from whvi.predictive.pointwise import pointwise, relu

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).double()


def network(outputs: int = 1, *, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    body = nn.Sequential(WHVILinear(3, 32), nn.ReLU(), nn.Dropout(0.3), nn.Sequential(WHVILinear(32, 32), nn.Tanh()))
    return nn.Sequential(body, MeanFieldLinear(32, outputs)).double().eval()


def gaussian_draws(count: int) -> Tensor:
    """Symmetric, with the variance that they should have."""
    z = torch.special.ndtri((torch.arange(count).double() + 0.5) / count)
    return z / z.square().mean().sqrt()


@pytest.mark.parametrize(
    ("module", "rule"), [(nn.ReLU(), relu), (nn.LeakyReLU(0.2), relu), (nn.Tanh(), pointwise), (nn.GELU(), pointwise)]
)
def test_activations(module: nn.Module, rule: Any) -> None:
    mean, std = torch.meshgrid(torch.linspace(-3, 3, 7).double(), torch.tensor([0.1, 0.7, 2.0]).double(), indexing="ij")
    z = gaussian_draws(200_001)[:, None, None]
    values = module(mean + std * z)
    stage = rule(module, mean, std.square())
    gain = (values * z).mean(0) / std
    torch.testing.assert_close(stage.mean, values.mean(0), atol=5e-4, rtol=0)
    torch.testing.assert_close(stage.variance, values.var(0), atol=1e-3, rtol=1e-2)
    u = torch.ones(1, *mean.shape).double()
    back, rest = stage.back(u)
    torch.testing.assert_close(back[0], gain, atol=1e-3, rtol=0)
    torch.testing.assert_close(rest[0], (values.var(0) - gain.square() * std.square()).sum(-1), atol=5e-3, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_out_relu_is_zero_or_the_identity(dtype: torch.dtype) -> None:
    mean = torch.tensor([-1e4, -50.0, 50.0, 1e4], dtype=dtype)
    stage = relu(nn.ReLU(), mean, torch.ones_like(mean))
    torch.testing.assert_close(stage.mean, mean.clamp_min(0.0))
    torch.testing.assert_close(stage.variance, (mean > 0).to(dtype), atol=1e-6, rtol=0)


def test_one_bayesian_layer_before_linear_ones_is_exact() -> None:
    torch.manual_seed(0)
    first, norm = WHVILinear(3, 16), nn.BatchNorm1d(16)
    nn.init.uniform_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2.0)
    after = nn.Sequential(nn.Identity(), norm, nn.Linear(16, 4), nn.Flatten(), nn.Linear(4, 2))
    model = nn.Sequential(first, after).double().eval()
    mean, variance = moments_of(model, X)
    law = first.weight_distribution()
    with torch.no_grad():
        linear = after(torch.eye(16).double()) - after(torch.zeros(1, 16).double())
        expected = (law.products(X) @ linear).square().sum(0) + first.bias.variance @ linear.square()
        torch.testing.assert_close(mean, after(first.evaluate(X, None)))
    torch.testing.assert_close(variance, expected)


def test_a_deep_network_has_nearly_the_moments_of_its_functions() -> None:
    model = network(2)
    with torch.no_grad():
        mean, variance = moments_of(model, X)
    sampled = predict(model, X, 4_000, seed=0)
    assert bool(((mean - sampled.mean).abs() < 0.1 * sampled.std).all())
    ratio = variance / sampled.variance
    assert 0.8 < float(ratio.min()) <= float(ratio.max()) < 1.25


def test_mc_dropout_and_known_outputs() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    mean, variance = moments_of(plain, X)
    torch.testing.assert_close(mean, plain(X))
    assert bool((variance == 0).all())
    model = nn.Sequential(plain, MCDropout(nn.Linear(2, 1), 0.5)).double().eval()
    sampled = predict(model, X, 20_000, seed=0)
    torch.testing.assert_close(moments_of(model, X)[1].detach(), sampled.variance, rtol=0.05, atol=1e-4)


@pytest.mark.parametrize("kind", [Gaussian(1), Gaussian(1, "input"), Categorical(3), Bernoulli(2), None])
def test_predictions_of_targets(kind: Likelihood | None) -> None:
    model = network(1 if kind is None else kind.features)
    likelihood = None if kind is None else kind.double()
    found = predict(model, X, likelihood=likelihood, method="moments")
    sampled = predict(model, X, 2_000, likelihood=likelihood, seed=0)
    torch.testing.assert_close(found.mean, sampled.mean, atol=0.05, rtol=0)
    torch.testing.assert_close(found.variance, sampled.variance, atol=0.01, rtol=0.2)
    torch.testing.assert_close(found.variance, found.epistemic + found.aleatoric)
    if kind is not None:
        y = predict(model, X, 1, likelihood=likelihood, seed=3).sample_y()[0]
        torch.testing.assert_close(found.log_prob(y), sampled.log_prob(y), atol=0.1, rtol=0)
        torch.testing.assert_close(found.entropy, sampled.entropy, atol=0.05, rtol=0)
        torch.testing.assert_close(found.mutual_information, sampled.mutual_information, atol=0.05, rtol=0)
        assert found.sample_y(5).shape[:2] == (5, 6)
    if not isinstance(kind, Categorical | Bernoulli):
        for a, b in zip(found.interval(0.9), sampled.interval(0.9), strict=True):
            torch.testing.assert_close(a, b, atol=0.15, rtol=0)
    mean, variance = Moments(model, likelihood)(X)
    torch.testing.assert_close(mean, found.mean)
    torch.testing.assert_close(variance, found.variance)


def test_constant_noise_is_one_gaussian() -> None:
    model, likelihood = network(), Gaussian().double()
    found, y = predict(model, X, likelihood=likelihood, method="moments"), torch.randn(6, 1).double()
    law = torch.distributions.Normal(found.mean, found.std)
    torch.testing.assert_close(found.log_prob(y), law.log_prob(y).squeeze(-1))
    torch.testing.assert_close(found.cdf(y), law.cdf(y))
    torch.testing.assert_close(found.quantile(0.1), law.icdf(torch.tensor(0.1).double()))
    torch.testing.assert_close(found.entropy, law.entropy().squeeze(-1))


def test_an_ensemble_mixes_the_moments_of_its_members() -> None:
    members, likelihoods = [network(seed=s) for s in range(3)], [Gaussian(variance=v).double() for v in (0.1, 0.2, 0.4)]
    found = predict(Ensemble(members, likelihoods), X, method="moments")
    means, variances = map(torch.stack, zip(*(moments_of(member, X) for member in members), strict=True))
    torch.testing.assert_close(found.mean, means.mean(0).detach())
    torch.testing.assert_close(found.epistemic, (variances.mean(0) + means.var(0, correction=0)).detach())
    torch.testing.assert_close(found.aleatoric, torch.full_like(found.mean, 0.7 / 3))
    y = torch.zeros(6, 1).double()
    pairs = zip(members, likelihoods, strict=True)
    each = [predict(model, X, likelihood=own, method="moments").log_prob(y) for model, own in pairs]
    torch.testing.assert_close(found.log_prob(y), torch.stack(each).logsumexp(0) - torch.tensor(3.0).double().log())
    mean, variance = Moments(Ensemble(members))(X)
    torch.testing.assert_close((mean, variance), (found.mean, found.epistemic))


class Own(nn.Module):
    """A module that nobody knows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(x)


class WithMoments(Own):
    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        return pointwise(self, mean, variance)


def test_modules_that_are_not_known_are_named_and_can_be_registered() -> None:
    model = nn.Sequential(nn.Sequential(WHVILinear(3, 4), Own()), nn.Linear(4, 1)).double()
    with pytest.raises(UnsupportedError, match=r"module '0\.1' \(Own\) has no moments; .*register_moments\(Own\)"):
        predict(model, X, method="moments")
    other = nn.Sequential(model[0][0], WithMoments())
    mean, variance = moments_of(other, X)
    _, layer = model[0][0].moments(X, None)[:2]
    torch.testing.assert_close(mean, torch.exp(-layer / 2) * torch.cos(model[0][0].evaluate(X, None)))

    class Registered(Own):
        pass

    register_moments(Registered)
    torch.testing.assert_close(moments_of(nn.Sequential(model[0][0], Registered()), X), (mean, variance))


class Changed(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


def test_what_would_be_wrong_is_refused() -> None:
    layer = WHVILinear(3, 3).double()
    hooked = nn.Linear(3, 1).double()
    hooked.register_forward_hook(lambda module, args, y: y + 1)
    random_scales = WHVILinear(3, 3, scales="diagonal").double()
    tied = WHVILinear(3, 3).double()
    tied.g = layer.g
    for model, message in (
        (nn.Sequential(layer, nn.ReLU(), layer), "several places"),
        (nn.Sequential(layer, hooked), r"module '1' \(Linear\) has hooks"),
        (nn.Sequential(layer, Changed(3, 1).double()), r"module '1' \(Changed\)"),
        (nn.Sequential(nn.Identity(), random_scales), r"module '1' \(WHVILinear\): .*scales are random"),
        (nn.Sequential(layer, tied), "share a posterior"),
        (nn.Sequential(layer, nn.LayerNorm(3)), "LayerNorm"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            moments_of(model, X)
    with pytest.raises(ShapeError, match="positions"):
        moments_of(nn.Sequential(layer), X.unsqueeze(1))
    for options, error in (({"method": "mean"}, "'samples' or 'moments'"), ({"draws": "example"}, "has no draws")):
        with pytest.raises(ArgumentError, match=error):
            predict(layer, X, **{"method": "moments", **options})
    with pytest.raises(InputTypeError, match="class"):
        register_moments(nn.ReLU())  # type: ignore[arg-type]


def test_predictions_need_the_model_as_it_was() -> None:
    model = network()
    found = predict(model, X, likelihood=Gaussian().double(), method="moments")
    with torch.no_grad():
        model[1].bias.mean.add_(1.0)
    with pytest.raises(UnsupportedError, match="changed"):
        found.log_prob(torch.zeros(6, 1).double())


def exportable() -> Moments:
    """One of each: a plain g, terms, a g that is correlated, noise that depends on the row."""
    torch.manual_seed(0)
    layers = WHVILinear(3, 4), nn.ReLU(), WHVILinear(4, 4, terms=2, posterior="low_rank:1"), MeanFieldLinear(4, 2)
    return Moments(nn.Sequential(*layers), Gaussian(1, "input"), samples=4)


def test_exported_graphs_are_plain_and_give_the_same() -> None:
    module, x = exportable(), torch.randn(5, 3)
    program = torch.export.export(module, (x[:2],), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
    assert not [node for node in program.graph.nodes if "whvi" in str(node.target)]
    torch.testing.assert_close(program.module()(x), module(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_onnx_gives_the_same(tmp_path: Path) -> None:
    module, x, path = exportable(), torch.randn(5, 3), tmp_path / "moments.onnx"
    torch.onnx.export(module, (x,), str(path), dynamo=True, verbose=False, optimize=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(tuple(map(torch.from_numpy, found)), tuple(t.detach() for t in module(x)))


def test_estimators() -> None:
    from whvi.sklearn import WHVIClassifier, WHVIRegressor

    x = torch.randn(60, 2).double()
    y = (x[:, 0] + 0.1 * torch.randn(60)).numpy()
    regressor = WHVIRegressor((8,), max_steps=200, samples=500, random_state=0).fit(x.numpy(), y)
    pairs = [
        (regressor.predict(x.numpy(), return_std=True, **options), regressor.predict_interval(x.numpy(), **options))
        for options in ({}, {"method": "moments"})
    ]
    for (mean, std), (low, high) in pairs[1:]:
        (other, scale), (bottom, top) = pairs[0]
        assert abs(mean - other).max() < 0.1
        assert abs(std / scale - 1).max() < 0.25
        assert abs(low - bottom).max() < 0.3
        assert abs(high - top).max() < 0.3
    assert abs(regressor.log_prob(x.numpy(), y, method="moments") - regressor.log_prob(x.numpy(), y)).mean() < 0.1
    assert regressor.predict_quantiles(x.numpy(), method="moments").shape == (60, 3)
    classifier = WHVIClassifier((8,), max_steps=100, random_state=0).fit(x.numpy(), y > 0)
    one, other = (classifier.predict_proba(x.numpy(), **options) for options in ({}, {"method": "moments"}))
    assert abs(one - other).max() < 0.15
    assert (classifier.predict(x.numpy(), method="moments") == classifier.predict(x.numpy())).mean() > 0.9
