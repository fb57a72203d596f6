"""Layers that share a posterior share its draw: where two of them cancel nothing is left, whoever draws."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.convert import bayesianize, to_dense
from whvi.inference import SVI, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn.model import bayesian_layers
from whvi.predictive import Ensemble
from whvi.testing import cover_pairs

N = 7
KINDS = ("linear", "stacked", "filters")
WAYS = ("example", "batch")


class Difference(nn.Module):
    """Two layers with one weight, and one bias or each its own; their outputs cancel but for the biases."""

    def __init__(self, kind: str, one_bias: bool = True, bias: bool = True) -> None:
        super().__init__()
        outputs = 40 if kind == "stacked" else 16
        make = (lambda: nn.Conv2d(4, 16, 3, bias=bias)) if kind == "filters" else lambda: nn.Linear(16, outputs, bias)
        self.one, self.other = make().double(), make().double()
        self.other.weight = self.one.weight
        if one_bias and bias:
            self.other.bias = self.one.bias

    def forward(self, x: Tensor) -> Tensor:
        difference: Tensor = self.other(x) - self.one(x)
        return difference.flatten(1)[:, :1]


def converted(kind: str, draws: str = "auto", **options: Any) -> tuple[nn.Module, Tensor]:
    names = ("one_bias", "bias")
    model = Difference(kind, **{name: bool(options.pop(name)) for name in names if name in options})
    bayesian, _ = bayesianize(model, rule=("one", "other"), draws=draws, relative_std=0.5, **options)  # type: ignore[arg-type]
    x = torch.randn(N, 4, 4, 4) if kind == "filters" else torch.randn(N, 16)
    return bayesian, x.double()


def zero(value: Tensor) -> None:
    torch.testing.assert_close(value, torch.zeros_like(value), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "draws", "options"),
    cover_pairs(KINDS, WAYS, [{}, {"bias": False}, {"scales": "diagonal"}, {"posterior": "full"}]),
    ids=str,
)
def test_tied_layers_cancel(kind: str, draws: str, options: dict[str, Any]) -> None:
    model, x = converted(kind, draws, **options)
    zero(model(x))
    for way in (1, 3, "example"):
        with whvi.sampling(model, way):
            rows = x.repeat(3, *(1,) * (x.ndim - 1)) if way == 3 else x
            zero(model(rows))
    for way in ("batch", "example"):
        zero(whvi.predict(model, x, samples=18, draws=way, seed=1).samples())
        zero(whvi.predict(Ensemble([model, converted(kind, draws, **options)[0]]), x, 4, draws=way, seed=1).samples())
    zero(to_dense(model, 3)(x))


@pytest.mark.parametrize(("kind", "draws", "samples"), cover_pairs(KINDS, WAYS, [1, 2, 5]))
def test_the_bound_has_no_noise_from_what_cancels(kind: str, draws: str, samples: int) -> None:
    """Law: the log-likelihood of f = 0 is exact, for any number of samples."""
    model, x = converted(kind, draws)
    y, likelihood = torch.randn(N, 1, dtype=torch.float64), Gaussian().double()
    exact = likelihood.log_prob(torch.zeros_like(y), y).sum() * 3
    found = whvi.elbo(model, likelihood, x, y, n_data=3 * N, samples=samples)
    torch.testing.assert_close(found.log_likelihood, exact)
    found.objective.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_training_sees_the_tie() -> None:
    """A fit, and replicas in one pass: targets of zero, of which tied layers take away nothing."""
    (model, x), y = converted("linear"), torch.zeros(N, 1, dtype=torch.float64)
    exact = narrow().log_prob(y, y).sum().item()
    alone = whvi.fit(model, narrow(), (x, y), steps=1, algorithm=SVI(samples=2), seed=0)
    models = [converted("linear")[0] for _ in range(2)]
    both = fit_replicas(models, [narrow() for _ in models], [(x, y)] * 2, steps=1, seeds=[0, 1])
    found = [alone.history.log_likelihood[0], *both.history.log_likelihood[0]]
    assert found == pytest.approx([exact] * 3)


def narrow() -> Gaussian:
    """Little noise, so that the bound would suffer from any difference."""
    return Gaussian(variance=0.01).double()


def test_what_is_not_shared_stays_independent() -> None:
    """One weight, two biases: their noise must not be the same, nor that of a layer of its own."""
    model, _ = converted("linear", one_bias=False)
    one, other = model.one, model.other
    with whvi.sampling(model, 1) as draws:
        pass
    assert torch.equal(one.weight_at(draws[one]), other.weight_at(draws[other]))
    standard = [((v.bias_value(draws[v]) - v.bias.mean) / v.bias.log_std.exp()).detach() for v in (one, other)]
    assert (standard[0] - standard[1]).abs().min() > 1e-6
    x = torch.randn(N, 16, dtype=torch.float64)
    for layer in (one, other):
        with whvi.sampling(model, draws):
            expected = x @ layer.weight_at(draws[layer]).mT + layer.bias_value(draws[layer])
            torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(to_dense(model, draws).other(x), expected)


def test_one_draw_for_each_example_with_biases_of_their_own() -> None:
    """The difference of two such layers is that of the biases, with fresh noise in every row."""
    model, x = converted("linear", "example", one_bias=False)
    with whvi.sampling(model, "example") as draws:
        found = model.other(x) - model.one(x)
    values = [v.bias_value(draws[v]._replace(shape=(N,))) for v in (model.one, model.other)]
    torch.testing.assert_close(found, values[1] - values[0])


def test_models_without_ties_draw_as_ever() -> None:
    """The seeds of a pass are those that the layers draw one after the other, bit by bit."""
    model = bayesianize(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)), rule=("0", "2")).model
    x, y, likelihood = torch.randn(N, 16), torch.randn(N, 1), Gaussian()
    torch.manual_seed(3)
    bound = whvi.elbo(model, likelihood, x, y, n_data=N).log_likelihood
    torch.manual_seed(3)
    assert torch.equal(bound, likelihood.log_prob(model(x), y).sum())
    generator = torch.Generator().manual_seed(5)
    with whvi.sampling(model, 1, torch.Generator().manual_seed(5)) as draws:
        assert [draws[v] for v in bayesian_layers(model)] == [v.draw((), generator) for v in bayesian_layers(model)]


@pytest.mark.parametrize("kind", KINDS)
def test_merged_layers_are_tied(kind: str) -> None:
    for draw in (None, 4):
        merged = to_dense(converted(kind)[0], draw)
        assert merged.other.weight is merged.one.weight
        assert merged.other.bias is merged.one.bias
        merged = to_dense(converted(kind, one_bias=False)[0], draw)
        assert merged.other.weight is merged.one.weight
        assert merged.other.bias is not merged.one.bias
    model, _ = converted(kind)
    apart = to_dense(model, {layer: layer.draw() for layer in bayesian_layers(model)})
    assert apart.other.weight is not apart.one.weight


def test_tied_layers_have_one_prior_of_constant_weight_variance() -> None:
    prior = whvi.posterior.ConstantWeightVariance(0.1)
    one, other = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
    other.weight = one.weight
    bayesian, _ = bayesianize(nn.Sequential(one, other), prior_variance=prior)
    assert torch.equal(whvi.kl(bayesian), bayesian_layers(bayesian)[0].kl())
