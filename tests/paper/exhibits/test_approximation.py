"""The least error of S1 H diag(g) H S2: against closed forms, and against descent on all numbers at once."""

from itertools import product as product_of
from statistics import fmean

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from whvi.ops.reference import hadamard
from whvi_paper.exhibits import approximation


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(size: int, seed: int) -> Tensor:
    return 2.0 * torch.rand(size, size, generator=seeded(seed), dtype=torch.float64) - 1.0


def product(vectors: Tensor) -> Tensor:
    """S1 H diag(g) H S2 of (3, D), written out."""
    s1, g, s2 = vectors
    h = hadamard(len(g), dtype=torch.float64)
    return torch.diag(s1) @ h @ torch.diag(g) @ h @ torch.diag(s2)


@pytest.mark.parametrize("size", [1, 2, 4, 16])
def test_matrix_of_the_form_is_found(size: int) -> None:
    target = product(torch.randn(3, size, generator=seeded(), dtype=torch.float64))
    rms = float(target.square().mean().sqrt())
    assert approximation.least_rmse(target, 64, 300, seeded(1)) < 1e-6 * rms


@pytest.mark.parametrize("seed", range(4))
def test_two_by_two_has_a_closed_form(seed: int) -> None:
    """The product of the four entries of W is a square; where it is negative, the nearest limit has one entry 0."""
    target = uniform(2, seed)
    exact = 0.0 if target.prod() > 0 else float(target.abs().min()) / 2
    found = approximation.least_rmse(target, 64, 1000, seeded(1))
    assert exact - 1e-12 <= found <= exact + 2e-3


def test_both_signs_of_that_product_are_tested() -> None:
    assert {bool(uniform(2, seed).prod() > 0) for seed in range(4)} == {True, False}


def test_as_good_as_descent_on_all_numbers_at_once() -> None:
    target = uniform(4, 3)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        vectors = torch.tensor(flat).reshape(3, 4).requires_grad_()
        value = (target - product(vectors)).square().mean()
        (gradient,) = torch.autograd.grad(value, vectors)
        return value.item(), gradient.flatten().numpy()

    starts = np.random.default_rng(0).normal(size=(12, 12))
    rival = min(minimize(loss, start, jac=True, method="L-BFGS-B").fun for start in starts) ** 0.5
    assert approximation.least_rmse(target, 64, 500, seeded()) == pytest.approx(rival, abs=2e-3)


def test_error_has_the_scale_of_the_target_and_is_below_that_of_zero() -> None:
    target = uniform(8, 0)
    error = approximation.least_rmse(target, 4, 30, seeded())
    assert approximation.least_rmse(3.0 * target, 4, 30, seeded()) == pytest.approx(3.0 * error)
    assert error < target.square().mean().sqrt()
    assert approximation.least_rmse(torch.zeros(8, 8), 2, 2, seeded()) == 0.0


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_bound_is_the_mean_over_all_signs_with_the_best_g(size: int) -> None:
    target = uniform(size, 5)
    shares = []
    for signs in product_of((1.0, -1.0), repeat=2 * size):
        s1, s2 = torch.tensor(signs, dtype=torch.float64).view(2, size)
        span = torch.stack([product(torch.stack([s1, unit, s2])).flatten() for unit in torch.eye(size).double()])
        shares.append(float((span @ target.flatten()).square().sum() / target.square().sum()) / size**2)
    assert fmean(shares) == pytest.approx(1.0 / size)
    rms = float(target.square().mean().sqrt())
    assert approximation.least_rmse(target, 32, 200, seeded()) <= approximation.bound(rms, size) + 1e-9


def test_table_has_the_median_and_the_share_explained() -> None:
    inputs = {"size": 4, "starts": 2}
    records = [
        {"name": "a", "inputs": inputs, "results": {"metrics": {"rmse": [0.3, 0.1, 0.2], "zero": [0.6, 0.4, 0.5]}}}
    ]
    shown = approximation.show(records)
    _, table = shown.blocks
    assert [(entry.width, entry.mean, entry.n) for entry in shown.entries] == [(4, 0.2, 3)]
    (row,) = table.rows
    assert [cell.text for cell in row] == ["4", "12 / 16", "0.200", "0.100 to 0.300", "0.433", "3 of 3", "84.0%"]
