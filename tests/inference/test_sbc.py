"""Simulation-based calibration of ``whvi.fit``: the posterior is right on average over data that the model makes."""

from types import ModuleType

import pytest
import torch

from loading import benchmark
from whvi.errors import ShapeError
from whvi.testing.simulation import ranks, uniformity

DRAWS = 99


@pytest.fixture(scope="module")
def sbc() -> ModuleType:
    return benchmark("sbc")


@pytest.mark.slow
def test_a_full_covariance_is_calibrated(sbc: ModuleType) -> None:
    result = sbc.run("full", 100)
    assert result.counts.sum(0).tolist() == [100] * 5
    assert (result.p_value > 1e-3).all(), result.p_value


@pytest.mark.slow
def test_a_diagonal_covariance_is_found_out(sbc: ModuleType) -> None:
    """The same test has the power to see a posterior that is too narrow."""
    assert sbc.run("diagonal", 100).p_value.min() < 1e-4


def test_ranks_of_exact_draws_are_uniform() -> None:
    truth, draws = torch.randn(2000, 3), torch.randn(2000, DRAWS, 3)
    assert (uniformity(ranks(truth, draws), DRAWS).p_value > 1e-3).all()


@pytest.mark.parametrize(("scale", "shift"), [(0.7, 0.0), (1.5, 0.0), (1.0, 0.3)])
def test_wrong_draws_are_found_out(scale: float, shift: float) -> None:
    truth, draws = torch.randn(2000), scale * torch.randn(2000, DRAWS) + shift
    assert uniformity(ranks(truth, draws), DRAWS).p_value < 1e-6


def test_the_p_value_is_that_of_scipy() -> None:
    from scipy.stats import chisquare

    found = torch.randint(100, (500,))
    result = uniformity(found, DRAWS)
    expected = chisquare(result.counts.numpy())
    assert float(result.statistic) == pytest.approx(expected.statistic)
    assert float(result.p_value) == pytest.approx(expected.pvalue)


def test_shapes_are_explained() -> None:
    with pytest.raises(ShapeError, match="expected"):
        ranks(torch.zeros(3), torch.zeros(4, 5))
    with pytest.raises(ShapeError, match="20 equal bins"):
        uniformity(torch.zeros(3), draws=100)
