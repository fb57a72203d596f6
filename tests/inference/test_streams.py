"""The posterior of some rows as the prior of the next."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import whvi
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.inference import SVI, fit, posterior_as_prior
from whvi.likelihoods import Gaussian
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.posterior import DiagonalGaussian, FullGaussian, JointPosterior, LowRankGaussian, PlanarFlow, Posterior
from whvi.posterior.last import LastPosterior
from whvi.testing.conjugate import LinearGaussian, design_matrix

NOISE = 0.3


def gaussian(kind: str) -> Posterior:
    mean = torch.randn(2, 3).double()
    made: Posterior = {
        "diagonal": DiagonalGaussian,
        "low rank": lambda mean: LowRankGaussian(mean, rank=2),
        "full": FullGaussian,
        "joint": lambda mean: JointPosterior(FullGaussian(mean.flatten()), (2, 3)),
    }[kind](mean)
    for parameter in made.parameters():
        nn.init.normal_(parameter, 0.0, 0.5)
    return made


def law(posterior: Posterior) -> torch.distributions.MultivariateNormal:
    root = posterior.covariance_root()
    return torch.distributions.MultivariateNormal(posterior.mean.reshape(root.shape[:-1]), root @ root.mT)


@pytest.mark.parametrize("kind", ["diagonal", "low rank", "full", "joint"])
def test_kl_to_an_earlier_posterior(kind: str) -> None:
    torch.manual_seed(0)
    before, now = gaussian(kind), gaussian(kind)
    prior = LastPosterior.of(before)
    expected = torch.distributions.kl_divergence(law(now), law(before)).sum()
    torch.testing.assert_close(now.kl(prior), expected)
    torch.testing.assert_close(before.kl(prior), torch.zeros(()).double(), atol=1e-9, rtol=0)
    draws = prior.rsample((20_000, *prior.mean.shape), torch.Generator().manual_seed(0))
    torch.testing.assert_close(draws.mean(0), prior.mean, atol=0.1, rtol=0)
    torch.testing.assert_close(draws.var(0).reshape(2, 3), before.variance.detach(), atol=0.0, rtol=0.1)


def test_a_flow_has_a_kl_to_it_but_cannot_become_one() -> None:
    torch.manual_seed(0)
    base = gaussian("full")
    assert isinstance(base, FullGaussian)
    flow = PlanarFlow(copy.deepcopy(base), 1, kl_samples=20_000)
    with torch.no_grad():
        flow.u.zero_()  # so it is its base
        assert abs(float(flow.kl(LastPosterior.of(base)))) < 0.05
    with pytest.raises(UnsupportedError, match="PlanarFlow is not Gaussian"):
        LastPosterior.of(flow)


def test_two_halves_are_the_whole() -> None:
    """Set to each half's exact posterior, the layer's KL makes the bound of the second half that of all rows."""
    torch.manual_seed(0)
    layer, x, y = WHVILinear(4, 1, bias=False, posterior="full").double(), torch.randn(60, 4).double(), torch.randn(60)
    design, y, unit = design_matrix(layer, x), y.double(), torch.eye(4).double()
    first = LinearGaussian(design[:30], y[:30], NOISE, unit)
    set_to(layer, *first.posterior())
    posterior_as_prior(layer)
    whole = LinearGaussian(design, y, NOISE, unit)
    set_to(layer, *whole.posterior())
    second = LinearGaussian(design[30:], y[30:], NOISE, unit)
    bound = second.expected_log_likelihood(*whole.posterior()) - whvi.kl(layer)
    expected = whole.log_evidence() - first.log_evidence()  # log p(second | first), reached by no other posterior
    torch.testing.assert_close(bound.detach(), expected)


def set_to(layer: WHVILinear, mean: torch.Tensor, covariance: torch.Tensor) -> None:
    """The full Gaussian g of a layer at this law."""
    assert isinstance(layer.g, FullGaussian)
    factor = torch.linalg.cholesky(covariance)
    row, column = torch.tril_indices(*factor.shape, -1)
    with torch.no_grad():
        layer.g.mean.copy_(mean)
        layer.g.log_std.copy_(factor.diagonal().log())
        layer.g.lower.copy_(factor[row, column])


def test_fit_to_one_half_after_the_other_reaches_the_posterior_of_the_whole() -> None:
    torch.manual_seed(0)
    layer = WHVILinear(4, 1, bias=False, posterior="full").double()
    for scale in layer.scales.parameters():
        scale.requires_grad_(False)
    x, y = torch.randn(60, 4).double(), torch.randn(60, 1).double()
    likelihood = Gaussian(variance=NOISE, learned=False).double()
    options: dict[str, Any] = {"steps": 1500, "algorithm": SVI(0.05, schedule=lambda s: 0.996**s, samples=8)}
    whole = LinearGaussian(design_matrix(layer, x), y.flatten(), NOISE, torch.eye(4).double())
    fit(layer, likelihood, (x[:30], y[:30]), **options)
    half = whole.gap(layer.g.mean.detach(), law(layer.g).covariance_matrix.detach())
    fit(layer, likelihood, (x[30:], y[30:]), prior=layer, **options)
    found = whole.gap(layer.g.mean.detach(), law(layer.g).covariance_matrix.detach())
    assert float(found) < 5e-3 < 0.1 < float(half)


def network() -> nn.Sequential:
    return nn.Sequential(WHVILinear(3, 8), nn.ReLU(), nn.Linear(8, 8), MeanFieldLinear(8, 1))


def test_what_is_not_random_is_held_unless_asked() -> None:
    model, likelihood = network(), Gaussian()
    posterior_as_prior(model, likelihood)
    assert abs(whvi.kl(model).item()) < 1e-4
    held = {name.rsplit(".", 1)[0] for name, p in model.named_parameters() if not p.requires_grad}
    assert held == {"0.scales.0", "0.scales.1", "2"}
    assert not likelihood.log_variance.requires_grad
    free = network()
    posterior_as_prior(free, freeze=False)
    assert all(parameter.requires_grad for parameter in free.parameters())


def test_saved_loaded_and_copied_models_keep_their_prior() -> None:
    model, other = network(), network()
    posterior_as_prior(model)
    with torch.no_grad():
        model[3].weights.mean.add_(1.0)
    other.load_state_dict(model.state_dict())
    for same in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert whvi.kl(same).item() == pytest.approx(whvi.kl(model).item(), rel=1e-6)
    other.load_state_dict(network().state_dict())  # of a model that has none
    assert not any(isinstance(module, LastPosterior) for module in other.modules())


def test_fit_starts_at_the_prior() -> None:
    before, x = network(), torch.randn(20, 3)
    fit(before, Gaussian(), (x, x.sum(1)), steps=3)
    model = network()
    result = fit(model, Gaussian(), (x, x.sum(1)), steps=1, prior=before)
    assert result.history.kl[0] == pytest.approx(0.0, abs=1e-3)
    with pytest.raises(ArgumentError, match="another architecture"):
        fit(WHVILinear(3, 1), Gaussian(), (x, x.sum(1)), steps=1, prior=before)
    with pytest.raises(InputTypeError, match=r"prior must be a torch\.nn\.Module or None, got Fit"):
        fit(model, Gaussian(), (x, x.sum(1)), steps=1, prior=result)  # type: ignore[arg-type]


def test_dropout_has_no_posterior() -> None:
    with pytest.raises(UnsupportedError, match="MCDropout has a KL, but no posterior"):
        posterior_as_prior(nn.Sequential(MCDropout(nn.Linear(2, 2))))


@pytest.mark.parametrize("members", [1, 2])
def test_estimators_learn_part_after_part(members: int, tmp_path: Any) -> None:
    from whvi.sklearn import WHVIRegressor

    torch.manual_seed(0)
    x = torch.randn(200, 2).double().numpy()
    y = x[:, 0] - x[:, 1]
    model = WHVIRegressor((8,), n_members=members, max_steps=300, random_state=0)
    for part in (slice(100), slice(100, 200)):
        model.partial_fit(x[part], y[part], prior="posterior")
    assert model.n_rows_seen_ == 200
    assert model.score(x, y) > 0.9
    model.save(tmp_path / "model")
    assert (WHVIRegressor.load(tmp_path / "model").predict(x) == model.predict(x)).all()
    with pytest.raises(ArgumentError, match="'first', 'posterior'"):
        model.partial_fit(x, y, prior="last")
