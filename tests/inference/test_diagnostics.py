"""R-hat and effective sample size: known values, laws, and an independent library."""

from math import log10

import pytest
import torch
from arviz_stats.base import array_stats
from torch import Tensor

from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.inference.diagnostics import effective_sample_size, split_rhat

BOTH = [split_rhat, effective_sample_size]


def autoregressive(chains: int, n: int, quantities: int, rho: float) -> Tensor:
    """Chains of unit variance with autocorrelation rho^t, from their stationary law: (chains, n, quantities)."""
    draws = torch.randn(chains, n, quantities, dtype=torch.float64)
    for t in range(1, n):
        draws[:, t] = rho * draws[:, t - 1] + (1.0 - rho**2) ** 0.5 * draws[:, t]
    return draws


def rough_waves(n: int = 200) -> Tensor:
    """Three chains without a generator; the last is shifted: (3, n)."""
    t = torch.arange(n, dtype=torch.float64)
    chains = [(t * t * 2**0.5 * (c + 1)).frac() + (0.3 * t).sin() / (4 + c) + 0.1 * (c == 2) for c in range(3)]
    return torch.stack(chains)


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("rank", [True, False])
def test_effective_sample_size_of_autoregressive_chains(rho: float, rank: bool) -> None:
    ess = effective_sample_size(autoregressive(4, 5000, 20, rho), rank=rank)
    assert ess.shape == (20,)
    assert float(ess.mean()) == pytest.approx(20000 * (1.0 - rho) / (1.0 + rho), rel=0.05)
    if rho >= 0.0:  # alone, each is a noisier estimate
        assert float(ess.std() / ess.mean()) < 0.12


@pytest.mark.parametrize("rank", [True, False])
def test_rhat_is_one_for_chains_of_one_law_and_large_for_others(rank: bool) -> None:
    draws = torch.randn(4, 1000, 3)
    assert float(split_rhat(draws, rank=rank).max()) < 1.01
    shifted = draws + torch.tensor([0.0, 0.0, 0.0, 1.5])[:, None, None]
    assert float(split_rhat(shifted, rank=rank).min()) > 1.1
    drifting = draws[:1] + torch.linspace(0.0, 3.0, 1000)[:, None]
    assert float(split_rhat(drifting, rank=rank).min()) > 1.1  # one chain is enough to see it


def test_ranks_see_chains_that_differ_in_spread_alone() -> None:
    draws = torch.randn(4, 1000) * torch.tensor([1.0, 1.0, 1.0, 4.0])[:, None]
    assert float(split_rhat(draws, rank=False)) < 1.01
    assert float(split_rhat(draws)) > 1.1


def test_rank_normalisation_ignores_increasing_maps() -> None:
    draws = autoregressive(4, 300, 2, 0.5)
    torch.testing.assert_close(effective_sample_size(draws.exp()), effective_sample_size(draws))
    heavy = torch.randn(4, 400, dtype=torch.float64) / torch.randn(4, 400, dtype=torch.float64)  # no mean
    assert float(effective_sample_size(heavy)) == pytest.approx(1600, rel=0.2)


def test_plain_rhat_is_its_formula() -> None:
    draws = torch.randn(3, 51, dtype=torch.float64)
    halves = torch.cat([draws[:, :25], draws[:, 26:]])
    within, between = halves.var(1).mean(), halves.mean(1).var()
    assert float(split_rhat(draws, rank=False)) == pytest.approx(float((24 / 25 + between / within).sqrt()), rel=1e-12)


def test_values_of_another_library() -> None:
    """By arviz-stats 0.8.0: rhat of methods rank and split, ess of methods bulk and mean."""
    draws = rough_waves()
    assert float(split_rhat(draws)) == pytest.approx(1.01021155306, rel=1e-9)
    assert float(split_rhat(draws, rank=False)) == pytest.approx(1.00801967049, rel=1e-9)
    assert float(effective_sample_size(draws)) == pytest.approx(226.06525633, rel=1e-9)
    assert float(effective_sample_size(draws, rank=False)) == pytest.approx(238.573561192, rel=1e-9)


@pytest.mark.parametrize("n", [80, 81, 500])
@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.5, 0.99])
def test_agrees_with_arviz(n: int, rho: float) -> None:
    draws = autoregressive(4, n, 6, rho)
    draws[..., :2] = draws[..., :2].round()  # ties
    theirs = draws.movedim(-1, 0).numpy()
    for rank, rhat, ess in ((True, "rank", "bulk"), (False, "split", "mean")):
        expected = torch.from_numpy(array_stats.rhat(theirs, method=rhat))
        torch.testing.assert_close(split_rhat(draws, rank=rank), expected, rtol=1e-9, atol=0.0)
        expected = torch.from_numpy(array_stats.ess(theirs, method=ess))
        torch.testing.assert_close(effective_sample_size(draws, rank=rank), expected, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("statistic", BOTH)
@pytest.mark.parametrize("rank", [True, False])
def test_trailing_axes_are_quantities_of_their_own(statistic, rank: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = autoregressive(2, 40, 6, 0.3)
    each = torch.stack([statistic(draws[..., i], rank=rank) for i in range(6)])
    torch.testing.assert_close(statistic(draws.unflatten(-1, (2, 3)), rank=rank), each.reshape(2, 3))
    monkeypatch.setattr("whvi.inference.diagnostics._AT_ONCE", 2 * 40 * 4)  # in pieces of four quantities
    torch.testing.assert_close(statistic(draws, rank=rank), each)
    assert statistic(draws[..., :0], rank=rank).shape == (0,)


@pytest.mark.parametrize("rank", [True, False])
def test_constant_draws(rank: bool) -> None:
    assert split_rhat(torch.full((2, 50), 0.1), rank=rank).isnan()
    assert effective_sample_size(torch.full((2, 50), 0.1), rank=rank).isnan()
    stuck = torch.tensor([0.1, 0.3])[:, None].expand(2, 50)
    assert split_rhat(stuck, rank=rank).isinf()
    assert float(effective_sample_size(stuck, rank=rank)) < 5.0
    two_values = torch.tensor([-1.0, 1.0]).repeat(2, 50)  # all as far from the median: the folded part says nothing
    assert float(split_rhat(two_values, rank=rank)) == pytest.approx(1.0, abs=0.05)


def test_effective_sample_size_has_an_upper_limit() -> None:
    antithetic = torch.tensor([-1.0, 1.0]).repeat(2, 50) + 0.01 * torch.randn(2, 100)
    assert float(effective_sample_size(antithetic)) == pytest.approx(200 * log10(200))


@pytest.mark.parametrize("statistic", BOTH)
@pytest.mark.parametrize(
    ("draws", "error", "message"),
    [
        ([[0.0] * 8], InputTypeError, "list"),
        (torch.zeros(8), ShapeError, r"unsqueeze\(0\)"),
        (torch.zeros(0, 8), ShapeError, "chains"),
        (torch.randn(4, 7), ShapeError, "8 or more"),
        (torch.randn(4, 8).index_fill(1, torch.tensor([3]), torch.nan), ArgumentError, "NaN or inf"),
        (torch.randn(4, 8).index_fill(1, torch.tensor([3]), torch.inf), ArgumentError, "NaN or inf"),
    ],
)
def test_bad_draws(statistic, draws: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        statistic(draws)
