"""The counter-based normals are as normal, and as independent, as a large sample can tell."""

import math

import pytest
import torch

from whvi.ops import normal

stats = pytest.importorskip("scipy.stats", reason="the statistical tests need scipy")

COUNT = 10_000_000


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    return normal(20201206, 0, (COUNT,)).double()


def test_kolmogorov_smirnov(sample: torch.Tensor) -> None:
    assert stats.kstest(sample.numpy(), "norm").pvalue > 1e-3


def test_moments(sample: torch.Tensor) -> None:
    """Sample moments within four standard errors; var(z^k) = m_2k - m_k^2 with m_2k = (2k - 1)!!."""
    power = torch.ones_like(sample)
    for order in range(1, 9):
        power *= sample
        even = math.prod(range(order - 1, 0, -2)) if order % 2 == 0 else 0
        spread = math.sqrt((math.prod(range(2 * order - 1, 0, -2)) - even**2) / COUNT)
        assert abs(float(power.mean()) - even) < 4 * spread, order


def test_tails(sample: torch.Tensor) -> None:
    for level in (3.0, 4.0, 4.5, 5.0):
        for side in (sample > level, sample < -level):
            expected = COUNT * stats.norm.sf(level)
            assert stats.poisson.cdf(int(side.sum()), expected) > 1e-4
            assert stats.poisson.sf(int(side.sum()) - 1, expected) > 1e-4


def test_fine_histogram(sample: torch.Tensor) -> None:
    """Equal-probability cells: chi-square sees granularity that Kolmogorov-Smirnov does not."""
    cells = 4096
    index = (torch.special.ndtr(sample) * cells).long().clamp_(0, cells - 1)
    assert stats.chisquare(torch.bincount(index, minlength=cells).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("lag", [1, 2, 8, 15, 16, 17, 32, 48, 64, 4096])
def test_independence_within_a_stream(sample: torch.Tensor, lag: int) -> None:
    """Neighbours, the two members of a pair (16 apart), rows: correlations of z, |z| and z^2 vanish."""
    count = COUNT - lag
    for f in (lambda z: z, torch.abs, torch.square):
        z = f(sample)
        x, y = z[:-lag], z[lag:]
        mean_x, mean_y = x.mean(), y.mean()
        variances = (x.dot(x) / count - mean_x**2) * (y.dot(y) / count - mean_y**2)
        assert abs(float((x.dot(y) / count - mean_x * mean_y) / variances.sqrt())) < 4.5 / math.sqrt(count)


def test_independence_across_seeds_and_offsets() -> None:
    count = 1_000_000
    streams = [(s, o) for s in (0, 1, 2, 3, 1 << 32, (1 << 32) + 1) for o in (0, 1 << 20, 1 << 40)]
    numbers = torch.stack([normal(s, o, (count,)) for s, o in streams]).double()
    correlation = torch.corrcoef(numbers) - torch.eye(len(streams), dtype=torch.float64)
    assert float(correlation.abs().max()) < 5 / math.sqrt(count)
    squares = torch.corrcoef(numbers**2) - torch.eye(len(streams), dtype=torch.float64)
    assert float(squares.abs().max()) < 5 / math.sqrt(count)


def test_one_number_of_many_seeds_is_normal() -> None:
    seeds = torch.arange(200_000)
    first = torch.vmap(lambda s: normal(s, 0, (1,)))(seeds).flatten()
    assert stats.kstest(first.numpy(), "norm").pvalue > 1e-3
