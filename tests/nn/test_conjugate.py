"""Layers, posteriors and KL against a problem whose evidence and posterior are known exactly."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.nn import WHVILinear
from whvi.posterior import FullGaussian, PlanarFlow
from whvi.testing import LinearGaussian, assert_close, cover_pairs, design_matrix, perturb, summed_design

NOISE = 0.3
PRIOR = 0.7


def make_layer(posterior: str, **options: Any) -> WHVILinear:
    """A linear layer with fixed scales and no bias: linear in g."""
    layer = WHVILinear(3, 5, bias=False, posterior=posterior, prior_variance=PRIOR, dtype=torch.float64, **options)  # type: ignore[arg-type]
    for scale in layer.scales:
        scale.requires_grad_(False)
    return layer


def problem_of(layers: Sequence[WHVILinear], examples: int = 4) -> LinearGaussian:
    """Targets that a draw of the prior makes."""
    x = torch.randn(examples, layers[0].in_features, dtype=torch.float64)
    design = summed_design(layers, x)
    g = PRIOR**0.5 * torch.randn(design.shape[1], dtype=torch.float64)
    targets = design @ g + NOISE**0.5 * torch.randn(design.shape[0], dtype=torch.float64)
    return LinearGaussian(design, targets, NOISE, PRIOR * torch.eye(design.shape[1], dtype=torch.float64))


def moments(layers: Sequence[WHVILinear]) -> tuple[Tensor, Tensor]:
    """Mean and covariance of all g together, from the posteriors."""
    roots = [layer.g.covariance_root() for layer in layers]
    covariances = [each for root in roots for each in (root @ root.mT).reshape(-1, *root.shape[-2:-1] * 2)]
    return torch.cat([layer.g.mean.flatten() for layer in layers]), torch.block_diag(*covariances)


def elbo(problem: LinearGaussian, layers: Sequence[WHVILinear]) -> Tensor:
    """The bound, with the KL of the library and the exact expected log-likelihood."""
    kl = torch.stack([layer.kl() for layer in layers]).sum()
    return problem.expected_log_likelihood(*moments(layers)) - kl


def maximise(problem: LinearGaussian, layers: Sequence[WHVILinear]) -> float:
    """Maximise the bound over the parameters of g; returns it."""
    parameters = [p for layer in layers for p in layer.parameters() if p.requires_grad]
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=300, tolerance_grad=1e-9, tolerance_change=1e-13, history_size=50,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -elbo(problem, layers)
        value.backward()
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return float(elbo(problem, layers).detach())


ONE: dict[str, Any] = {}
OWN: dict[str, Any] = {"share_g": False}
TERMS: dict[str, Any] = {"terms": 2}
GRID: dict[str, Any] = {"layout": "grid", "block": 2, "share_g": False}


@pytest.mark.parametrize("options", [ONE, OWN, TERMS, GRID], ids=["shared", "own", "terms", "grid"])
@pytest.mark.parametrize("word", ["SHGHS", "SHGH", "SHGHSH"])
def test_the_design_matrix_is_the_layer(word: str, options: dict[str, Any]) -> None:
    layer, x = make_layer("point", structure=word, **options), torch.randn(4, 3, dtype=torch.float64)
    assert_close((design_matrix(layer, x) @ layer.g.mean.flatten()).reshape(4, 5), layer(x), 1e-12)


@pytest.mark.parametrize("count", [1, 2])
def test_the_full_gaussian_reaches_the_evidence(count: int) -> None:
    """At the exact posterior, set by hand, the bound is the log evidence; two layers as one joint Gaussian g."""
    layers = [make_layer("full") for _ in range(count)]
    problem = problem_of(layers)
    mean, covariance = problem.posterior()
    joint = full_gaussian(mean, covariance)
    root = joint.covariance_root()
    bound = problem.expected_log_likelihood(joint.mean, root @ root.mT) - joint.kl(layers[0].prior)
    assert abs(float((bound - problem.log_evidence()).detach())) < 1e-8
    assert abs(float(problem.elbo(mean, covariance) - problem.log_evidence())) < 1e-8


def full_gaussian(mean: Tensor, covariance: Tensor) -> FullGaussian:
    """The library's posterior with that mean and covariance."""
    posterior, root, size = FullGaussian(mean.clone()), torch.linalg.cholesky(covariance), len(mean)
    row, column = torch.tril_indices(size, size, -1)
    with torch.no_grad():
        posterior.log_std.copy_(root.diagonal().log())
        posterior.lower.copy_(root[row, column])
    return posterior


def test_a_full_gaussian_layer_is_trained_to_the_evidence() -> None:
    layer = make_layer("full")
    problem = problem_of([layer])
    assert abs(maximise(problem, [layer]) - float(problem.log_evidence())) < 1e-8


@pytest.mark.parametrize("options", [ONE, OWN, TERMS, GRID], ids=["shared", "own", "terms", "grid"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_mean_field_optimum(count: int, options: dict[str, Any]) -> None:
    """Trained diagonal posteriors of one layer, or of two that are summed, land on (m, 1 / Lambda_ii)."""
    layers = [make_layer("diagonal", **options) for _ in range(count)]
    problem = problem_of(layers)
    bound = maximise(problem, layers)
    expected = problem.mean_field_optimum()
    mean, covariance = moments(layers)
    assert float((mean - expected.mean).detach().abs().max()) < 1e-6
    assert float((covariance - expected.covariance).detach().abs().max()) < 1e-6
    assert abs(bound - float(problem.elbo(*expected))) < 1e-8
    assert bound < float(problem.log_evidence()) - 1e-3  # the family does not hold the posterior


def test_low_rank_is_between_mean_field_and_full() -> None:
    torch.manual_seed(1)
    layers = {kind: make_layer(kind) for kind in ("diagonal", "low_rank:2", "full")}
    for layer in layers.values():
        layer.scales.load_state_dict(layers["full"].scales.state_dict())
    problem = problem_of([layers["full"]])
    bounds = [maximise(problem, [layer]) for layer in layers.values()]
    assert bounds[0] + 1e-3 < bounds[1] < bounds[2] + 1e-9


def every_problem(*kinds: str) -> pytest.MarkDecorator:
    """Every two of the kind of posterior, whether g is shared, the number of layers and that of examples."""
    cases = cover_pairs(kinds, (True, False), (1, 2), range(1, 8))
    return pytest.mark.parametrize(("kind", "share_g", "count", "examples"), cases)


def random_problem(kind: str, share_g: bool, count: int, examples: int) -> tuple[LinearGaussian, list[WHVILinear]]:
    """Posteriors off their special values, and targets for them."""
    torch.manual_seed(examples)
    layers = [make_layer(kind, share_g=share_g) for _ in range(count)]
    for layer in layers:
        perturb(layer.g, 0.5, examples)
    return problem_of(layers, examples), layers


@every_problem("planar:2", "planar:2:full")
def test_the_bound_of_a_flow_is_a_bound(kind: str, share_g: bool, count: int, examples: int) -> None:
    """On random problems and posteriors, within four standard errors."""
    problem, layers = random_problem(kind, share_g, count, examples)
    estimates = flow_bounds(problem, layers)
    error = float(estimates.std()) * len(estimates) ** -0.5
    assert float(estimates.mean()) - 4.0 * error <= float(problem.log_evidence())


@every_problem("diagonal", "low_rank:2", "full")
def test_the_bound_is_a_bound(kind: str, share_g: bool, count: int, examples: int) -> None:
    """On random problems and posteriors: evidence - bound == KL(q || exact posterior) for Gaussians."""
    problem, layers = random_problem(kind, share_g, count, examples)
    evidence, bound = problem.log_evidence(), elbo(problem, layers).detach()
    assert float(bound) <= float(evidence)
    mean, covariance = (value.detach() for value in moments(layers))
    assert_close(evidence - bound, problem.gap(mean, covariance), 1e-8)
    assert_close(bound, problem.elbo(mean, covariance), 1e-10)


@torch.no_grad()
def flow_bounds(problem: LinearGaussian, layers: Sequence[WHVILinear], count: int = 20) -> Tensor:
    """Independent estimates of the bound of a flow."""
    values = []
    for _ in range(count):
        draws = torch.cat([layer.g.rsample((64,)).flatten(1) for layer in layers], dim=1)
        values.append(problem.log_likelihood(draws).mean() - sum(layer.kl() for layer in layers))
    return torch.stack(values)


def test_a_flow_can_beat_its_base_and_not_the_evidence() -> None:
    """A trained planar flow on a diagonal base is a bound too, and a good one: within a nat of the evidence."""
    layer = make_layer("planar:2")
    problem = problem_of([layer])
    assert isinstance(layer.g, PlanarFlow)
    layer.g.kl_samples = 64
    optimizer = torch.optim.Adam(layer.g.parameters(), 0.03)
    for _ in range(300):
        optimizer.zero_grad()
        draws = layer.g.rsample((64,))
        loss = layer.kl() - problem.log_likelihood(draws).mean()
        loss.backward()
        optimizer.step()
    bounds = flow_bounds(problem, [layer], 400)
    error = float(bounds.std()) * 400**-0.5
    evidence = float(problem.log_evidence())
    assert float(bounds.mean()) - 4.0 * error <= evidence
    assert float(bounds.mean()) > evidence - 2.0


def test_a_wrong_shape_is_refused() -> None:

    with pytest.raises(ArgumentError, match="targets"):
        LinearGaussian(torch.ones(2, 3), torch.ones(3), 1.0, torch.eye(3))
    with pytest.raises(ArgumentError, match="prior_covariance"):
        LinearGaussian(torch.ones(2, 3), torch.ones(2), 1.0, torch.eye(2))
