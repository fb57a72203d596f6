"""Planar flows: the constraint, the inverse that it makes, the log-determinant."""

import pytest
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from whvi.errors import ArgumentError
from whvi.posterior import DiagonalGaussian, GaussianPrior, PlanarFlow
from whvi.testing import assert_close, perturb


def make(size: int = 3, steps: int = 1, spread: float = 2.0, seed: int = 0) -> PlanarFlow:
    flow = PlanarFlow(DiagonalGaussian(torch.zeros(size, dtype=torch.float64), 0.0), steps)
    perturb(flow, spread, seed)
    return flow


def grid(size: int, count: int = 500) -> Tensor:
    return 3.0 * torch.randn(count, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(20))
def test_log_determinant_is_that_of_the_jacobian(seed: int) -> None:
    """Also where the stored u would make the step fold back: the one in use keeps det > 0."""
    flow, z = make(seed=seed, steps=1 + seed % 3), grid(3)
    jacobian = vmap(jacrev(lambda point: flow.push(point)[0]))(z)
    sign, log_det = torch.linalg.slogdet(jacobian)
    assert bool((sign == 1.0).all())
    error = (flow.push(z)[1] - log_det).abs() * jacobian.det().clamp_max(1.0)  # relative to det, which can be small
    assert float(error.detach().max()) < 1e-12


def test_some_stored_directions_break_the_constraint() -> None:
    """So that the test above means something."""
    flows = [make(seed=seed) for seed in range(20)]
    assert sum(bool((flow.u * flow.w).sum() < -1.0) for flow in flows) >= 3


@pytest.mark.parametrize("seed", range(20))
def test_a_step_is_invertible(seed: int) -> None:
    """Along w, where alone f moves things together, the map is strictly increasing; f^-1 by bisection finds z."""
    flow, z = make(seed=seed), grid(3, 50)
    with torch.no_grad():
        y, _ = flow.push(z)
        w = flow.w[0]
        shift = flow.push(torch.zeros_like(z))[0] / torch.tanh(flow.b[0])  # u in use
        low, high = torch.full((50,), -1e3, dtype=torch.float64), torch.full((50,), 1e3, dtype=torch.float64)
        for _ in range(100):  # solve a + u.w tanh(a + b) = w.y for a = w.z
            middle = 0.5 * (low + high)
            above = middle + (shift @ w) * torch.tanh(middle + flow.b[0]) > y @ w
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        found = y - shift * torch.tanh(low + flow.b[0]).unsqueeze(-1)
        assert float((shift @ w).min()) >= -1.0 - 1e-12
    assert float((found - z).abs().max()) < 1e-6


def test_zero_directions_are_the_identity() -> None:
    flow, z = make(steps=2), grid(3)
    with torch.no_grad():
        flow.u.zero_()
    y, log_det = flow.push(z)
    assert_close(y, z, 1e-12)
    assert log_det.abs().max().item() < 1e-12
    with torch.no_grad():
        flow.w.zero_()
        flow.u.fill_(1.0)
    assert bool(flow.push(z)[0].isfinite().all())


def test_a_flow_adds_two_vectors_and_a_number_for_each_step() -> None:
    flow = make(size=128, steps=10)
    assert sum(p.numel() for p in flow.parameters()) == 2 * 128 + 10 * (2 * 128 + 1)


def test_estimates_of_the_kl_differ() -> None:
    """Fresh draws in each call; the same with the same seed of torch."""
    flow, prior = make(), GaussianPrior()
    assert flow.kl(prior) != flow.kl(prior)
    torch.manual_seed(3)
    first = flow.kl(prior)
    torch.manual_seed(3)
    assert first == flow.kl(prior)


@pytest.mark.parametrize("name", ["steps", "kl_samples", "mean_samples"])
def test_counts_must_be_positive(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"{name}.*0"):
        PlanarFlow(DiagonalGaussian(torch.zeros(2)), **{name: 0})
