"""The counter-based normals: the same bits everywhere, and as normal as a large sample can tell."""

import math

import pytest
import torch
from scipy import stats

from whvi.ops import draw_seed, native, normal, reference

COUNT = 10_000_000
INSTRUCTION_SETS = [name for name in ("avx512", "avx2", "generic") if native.use_instruction_set(name)]
if INSTRUCTION_SETS:
    native.use_instruction_set(INSTRUCTION_SETS[0])


@pytest.mark.parametrize(
    ("seed", "offset", "count"),
    [(0, 0, 1000), (7, 13, 500), (-5, 2**40 + 3, 300), (2**62 + 12345, 64, 64), (1, 2**36 * 16 - 40, 200), (3, 1, 0)],
)
def test_bits_of_the_reference(seed: int, offset: int, count: int) -> None:
    assert torch.equal(normal(seed, offset, (count,)), reference.normal(seed, offset, count))


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_instruction_sets_agree(name: str) -> None:
    expected = normal(5, 77, (100_003,))
    try:
        assert native.use_instruction_set(name)
        assert torch.equal(normal(5, 77, (100_003,)), expected)
    finally:
        native.use_instruction_set(INSTRUCTION_SETS[0])


def test_threads_and_cuts_do_not_matter() -> None:
    expected = normal(9, 0, (300, 100))
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert torch.equal(normal(9, 0, (300, 100)), expected)
    finally:
        torch.set_num_threads(threads)
    pieces = [normal(9, 100 * row, (1, 100)) for row in range(300)]
    assert torch.equal(torch.cat(pieces), expected)


def test_known_answers_of_philox() -> None:
    """Ten rounds give the published Random123 vectors; the round function and keys are the same with seven."""
    zero = reference._philox(torch.zeros(1, dtype=torch.int64), 0, rounds=10)
    assert [int(word) for word in zero] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_torch_generator_governs_seeds() -> None:
    torch.manual_seed(4)
    first = [int(draw_seed()) for _ in range(3)]
    torch.manual_seed(4)
    assert [int(draw_seed()) for _ in range(3)] == first
    assert len(set(first)) == 3
    generator = torch.Generator().manual_seed(1)
    assert int(draw_seed(generator)) == int(draw_seed(torch.Generator().manual_seed(1)))


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    return normal(20201206, 0, (COUNT,)).double()


def test_kolmogorov_smirnov(sample: torch.Tensor) -> None:
    assert stats.kstest(sample.numpy(), "norm").pvalue > 1e-3


def test_moments(sample: torch.Tensor) -> None:
    """Sample moments within four standard errors; var(z^k) = m_2k - m_k^2 with m_2k = (2k - 1)!!."""
    for order in range(1, 9):
        even = math.prod(range(order - 1, 0, -2)) if order % 2 == 0 else 0
        spread = math.sqrt((math.prod(range(2 * order - 1, 0, -2)) - even**2) / COUNT)
        assert abs(float((sample**order).mean()) - even) < 4 * spread, order


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
    a, b = sample[:-lag], sample[lag:]
    bound = 4.5 / math.sqrt(len(a))
    for f in (lambda z: z, torch.abs, torch.square):
        x, y = f(a), f(b)
        assert abs(float(((x - x.mean()) * (y - y.mean())).mean() / (x.std() * y.std()))) < bound


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
