"""One g for several layers: one posterior, one draw and one KL term, whoever calls the model, and however."""

import gc
import inspect
import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import whvi
from whvi.convert import bayesianize, to_dense
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.inference import Checkpoint, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVIColumn, WHVIConv2d, WHVILinear
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.together import in_separate_passes
from whvi.posterior import ConstantWeightVariance, GaussianPrior
from whvi.predictive import Ensemble
from whvi.testing import assert_close, assert_moments, perturb
from whvi.testing.compare import message_of
from whvi.testing.conjugate import LinearGaussian, design_matrix

NOISE = 0.5


class Pair(nn.Module):
    """Two layers of the same input: their outputs side by side, or a sum of them."""

    def __init__(self, inputs: int = 4, outputs: int = 3, **options: Any) -> None:
        super().__init__()
        settings = {"bias": False, "dtype": torch.float64, **options}
        self.one, self.other = WHVILinear(inputs, outputs, **settings), WHVILinear(inputs, outputs, **settings)

    def forward(self, x: Tensor, sign: float | None = None) -> Tensor:
        one, other = self.one(x), self.other(x)
        return torch.cat((one, other), -1) if sign is None else one + sign * other


class Difference(Pair):
    """Equal layers, whose difference is zero where both have one draw."""

    def __init__(self, **options: Any) -> None:
        super().__init__(8, 8, **options)
        self.other.scales = self.one.scales
        whvi.share_g(self)

    def forward(self, x: Tensor, sign: float | None = None) -> Tensor:
        return super().forward(x, -1.0 if sign is None else sign)[..., :1]


def by_function(model: Pair) -> nn.Module:
    return whvi.share_g(model, ["one", "other"])


def by_hand(model: Pair) -> nn.Module:
    """Of two layers that share g already, the model is told."""
    model.other.g = model.one.g
    return whvi.share_g(model)


@pytest.mark.parametrize("share", [by_function, by_hand])
@pytest.mark.parametrize("draws", ["example", "batch"])
def test_outputs_have_the_joint_covariance_of_the_dense_twin(draws: str, share: Callable[[Pair], nn.Module]) -> None:
    torch.manual_seed(0)
    model = Pair(posterior="full", draws=draws)
    perturb(share(model))
    x = torch.randn(1, 4, dtype=torch.float64)
    design = torch.cat([design_matrix(layer, x) for layer in (model.one, model.other)])
    root = design @ model.one.g.covariance_root()
    with torch.no_grad():
        if draws == "example":
            found = model(x.expand(20_000, -1))
        else:
            found = vmap(lambda row: model(row), randomness="different")(x.expand(20_000, 1, -1)).squeeze(1)
    assert_moments(found, design @ model.one.g.mean, root @ root.mT)


@pytest.mark.parametrize("draws", ["example", "batch"])
def test_the_bound_of_a_bare_forward_is_that_of_the_joint_model(draws: str) -> None:
    """log p(y | f) of calls of the model, minus its KL, has the mean of the exact bound, below the evidence."""
    torch.manual_seed(1)
    model = perturb(whvi.share_g(Pair(draws=draws)))
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
    design = design_matrix(model.one, x) + design_matrix(model.other, x)
    oracle = LinearGaussian(design, y.flatten(), NOISE, torch.eye(4).double())
    root = model.one.g.covariance_root()
    exact = oracle.elbo(model.one.g.mean, root @ root.mT)
    likelihood = Gaussian(3, variance=NOISE, learned=False).double()

    def bound(rows: Tensor) -> Tensor:
        return likelihood.log_prob(model(rows, 1.0), y).sum() - whvi.kl(model)

    with torch.no_grad():
        bounds = vmap(bound, randomness="different")(x.expand(2000, -1, -1))
    error = float(bounds.std()) / 2000**0.5
    assert abs(float((bounds.mean() - exact).detach())) < 4 * error
    assert bounds.mean() < oracle.log_evidence()


def test_the_kl_counts_once() -> None:
    model = whvi.share_g(Pair(bias=True))
    assert len({id(p) for p in model.parameters()}) == len(list(Pair(bias=True).parameters())) - 2
    others = sum(layer.bias.kl(GaussianPrior()) for layer in (model.one, model.other) if layer.bias is not None)
    assert_close(whvi.kl(model), model.one.g.kl(model.one.prior) + others, 1e-12)


X = torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def zero(value: Tensor) -> None:
    assert float(value.detach().abs().max()) < 1e-12


@pytest.mark.parametrize("draws", ["example", "batch"])
def test_every_way_to_call_a_model_draws_once(draws: str, tmp_path: Path) -> None:
    model = Difference(draws=draws)
    zero(model(X))
    assert not torch.equal(model(X, 1.0), model(X, 1.0))  # and each call anew
    for copied in (deepcopy(model), pickle.loads(pickle.dumps(model)), nn.Sequential(model, nn.Identity())):
        zero(copied(X))
    zero(functional_call(model, dict(model.named_parameters()), (X,)))
    for way in (1, 5, "example"):
        with whvi.sampling(model, way):
            zero(model(X))
    with whvi.mean_mode(model):
        zero(model(X))
        assert torch.equal(model(X, 1.0), model(X, 1.0))
    for kind in ("batch", "example"):
        zero(whvi.predict(model, X, samples=6, draws=kind, seed=1).samples())
    ensemble = Ensemble([model, Difference(draws=draws)])
    zero(ensemble.functions(X))
    zero(ensemble.member(1)(X))
    y, likelihood = torch.ones(5, 1, dtype=torch.float64), Gaussian(variance=0.01, learned=False).double()
    exact = float(likelihood.log_prob(torch.zeros_like(y), y).sum())
    for samples in (1, 3):
        found = whvi.elbo(model, likelihood, X, y, n_data=5, samples=samples).log_likelihood
        assert found.item() == pytest.approx(exact)
    models = [Difference(draws=draws) for _ in range(2)]
    both = fit_replicas(models, [deepcopy(likelihood) for _ in models], [(X, y)] * 2, steps=2, seeds=[0, 1])
    assert list(both.history.log_likelihood[-1]) == pytest.approx([exact] * 2)
    for steps in (2, 4):  # the second resumes from the checkpoint of the first
        run = whvi.fit(model, likelihood, (X, y), steps=steps, seed=0, callbacks=[Checkpoint(tmp_path / "run")])
        assert run.history.log_likelihood[-1] == pytest.approx(exact)
    zero(model(X))


def test_an_error_in_a_pass_leaves_nothing_fixed() -> None:
    model = Difference()
    with pytest.raises(whvi.WhviError, match="last axis"):
        model(X[:, :3])
    assert whvi.nn.draws.fixed_draws() is None


def test_compiled_and_exported_models_draw_once() -> None:
    model = Difference()
    torch.compiler.reset()
    zero(torch.compile(model, fullgraph=True, backend="aot_eager")(X))
    torch.compiler.reset()
    program = torch.export.export(model, (X,)).module()
    zero(program(X))
    with whvi.mean_mode(model):
        exported = torch.export.export(model, (X, 1.0)).module()
        assert_close(exported(X, 1.0), model(X, 1.0), 1e-12)


def test_a_compiled_fit_draws_once() -> None:
    model = Difference()
    y, likelihood = torch.ones(5, 1, dtype=torch.float64), Gaussian(variance=0.01, learned=False).double()
    exact = float(likelihood.log_prob(torch.zeros_like(y), y).sum())
    run = whvi.fit(model, likelihood, (X, y), steps=2, seed=0, compile=True)
    assert run.history.log_likelihood[-1] == pytest.approx(exact)


def test_a_tie_by_hand_cannot_be_drawn_twice_unseen() -> None:
    """A layer that shares its g refuses a draw of its own, in copies too; and is free again when it is alone."""
    model = Pair()
    x = torch.randn(2, 4, dtype=torch.float64)
    model(x)
    model.other.g = model.one.g
    for one in (model, deepcopy(model), pickle.loads(pickle.dumps(model)), model.one):
        message = message_of(UnsupportedError, lambda one=one: one(x))  # type: ignore[misc]
        assert "whvi.share_g(model)" in message
        with whvi.sampling(one):
            one(x)
        with whvi.mean_mode(one):
            one(x)
    members = Ensemble([model, deepcopy(model)])  # knows the whole model
    assert members.functions(x).shape == (2, 2, 6)
    assert members.member(0)(x).shape == (2, 6)
    copied = deepcopy(model.one)
    gc.collect()
    copied(x)  # without its twin
    model.other.g = deepcopy(model.one.g)
    model(x)


def test_scales_and_biases_that_are_shared_count_too() -> None:
    for part in ("scales", "bias"):
        model = Pair(bias=True, scales="diagonal")
        setattr(model.other, part, getattr(model.one, part))
        with pytest.raises(UnsupportedError, match="shares a random vector"):
            model(torch.randn(2, 4, dtype=torch.float64))
    model = Pair()
    model.other.scales = model.one.scales  # not random
    model(torch.randn(2, 4, dtype=torch.float64))


def test_layers_that_draw_in_two_ways_have_no_common_draw() -> None:
    model = Pair()
    model.other.g, model.other.draws = model.one.g, "batch"
    with pytest.raises(ArgumentError, match="no common draw"):
        whvi.elbo(model, Gaussian(6).double(), X[:, :4], X[:, :6], n_data=5)


def test_conversion_lets_tied_layers_draw_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(16, 16).double(), nn.Linear(16, 16).double()
            self.other.weight, self.other.bias = self.one.weight, self.one.bias

        def forward(self, x: Tensor) -> Tensor:
            difference: Tensor = self.one(x) - self.other(x)
            return difference

    model = bayesianize(Tied()).model
    x = torch.randn(3, 16, dtype=torch.float64)
    zero(model(x))
    assert "forward" not in vars(bayesianize(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))).model)
    assert "forward" not in vars(to_dense(model))
    with pytest.raises(UnsupportedError, match="shares a random vector"):
        model.get_submodule("one")(x)


def test_the_forward_of_a_model_keeps_its_signature_and_comes_back() -> None:
    model = whvi.share_g(Pair())
    assert list(inspect.signature(model.forward).parameters) == ["x", "sign"]
    assert whvi.share_g(model).forward is model.forward  # not a pass within a pass
    assert differences(anatomy(model), anatomy(Pair()))
    assert "forward" not in vars(in_separate_passes(model))
    doubled = partial(lambda model, x: 2.0 * Pair.forward(model, x), model)  # what another library put there
    model.forward = doubled  # type: ignore[method-assign]
    with whvi.mean_mode(model):
        assert torch.equal(whvi.share_g(model)(X[:, :4]), 2.0 * Pair.forward(model, X[:, :4]))
    assert in_separate_passes(model).forward is doubled


def options(**of_the_other: Any) -> nn.Module:
    return nn.Sequential(WHVILinear(8, 8), nn.ReLU(), WHVILinear(8, 8, **of_the_other))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Sequential(WHVILinear(8, 8), WHVILinear(16, 8)), r"shape \(8,\) in one and \(16,\) in the other"),
        (lambda: options(terms=2), r"shape \(8,\) in one and \(2, 8\)"),
        (lambda: options(posterior="full"), "the posteriors differ, g.class was 'DiagonalGaussian'"),
        (lambda: options(dtype=torch.float64), "the posteriors differ, g.mean was"),
        (lambda: options(prior_variance=2.0), "the priors differ, prior.initial_variance was 1.0 and is 2.0"),
        (lambda: options(prior_variance=GaussianPrior(learned=True)), "the priors differ"),
        (lambda: options(draws="batch"), "one has draws='example' and the other draws='batch'"),
        (
            lambda: nn.Sequential(*(WHVILinear(8, 8, prior_variance=ConstantWeightVariance(0.1)) for _ in range(2))),
            "under ConstantWeightVariance it has another prior",
        ),
        (lambda: nn.Sequential(WHVILinear(8, 8), MeanFieldLinear(8, 8)), "two layers or more, but 1"),
    ],
)
def test_layers_that_cannot_share_are_named(make: Callable[[], nn.Module], words: str) -> None:
    model = make()
    before = [layer.g for layer in model if isinstance(layer, WHVILinear)]
    with pytest.raises(ArgumentError, match=words):
        whvi.share_g(model)
    assert [layer.g for layer in model if isinstance(layer, WHVILinear)] == before


def test_names_choose() -> None:
    model = nn.ModuleDict(
        {"a": WHVILinear(8, 8), "b": nn.Sequential(WHVILinear(8, 4), WHVIColumn(64)), "c": WHVILinear(8, 8)}
    )
    with pytest.raises(ArgumentError, match=r"no structured layer is called 'd'; there are: a, b\.0, b\.1, c"):
        whvi.share_g(model, ["a", "d"])
    with pytest.raises(InputTypeError, match="each item a string"):
        whvi.share_g(model, [1])  # type: ignore[list-item]
    with pytest.raises(InputTypeError, match=r"torch\.nn\.Module"):
        whvi.share_g([model])  # type: ignore[type-var]
    whvi.share_g(model, ["[ac]", "b"])
    layers = [model.get_submodule(name) for name in ("a", "b.0", "b.1", "c")]
    assert len({layer.g for layer in layers}) == 1


def test_filters_share_too() -> None:
    model = nn.Sequential(WHVIConv2d(2, 2, 2, padding=1), WHVIConv2d(2, 2, 2))
    y = whvi.share_g(model)(torch.randn(3, 2, 4, 4))
    y.sum().backward()
    assert y.shape == (3, 2, 4, 4)
    assert all(p.grad is not None for p in model.parameters())


def test_a_learned_prior_is_shared_with_its_g() -> None:
    model = nn.Sequential(*(WHVILinear(8, 8, prior_variance=GaussianPrior(learned=True)) for _ in range(2)))
    one, other = whvi.share_g(model)
    assert one.prior is other.prior
    assert_close(whvi.kl(model), one.kl() + other.bias.kl(GaussianPrior()), 1e-6)
