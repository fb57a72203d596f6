"""Diagnostics of Markov chains: R-hat and effective sample size.

Both answers are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and
localization: an improved R-hat" (Bayesian Analysis, 2021). Each chain is cut into halves, so that a drift within a
chain counts as a difference between chains. With ``rank=True`` draws are replaced by the normal scores of their ranks,
so heavy tails have no effect; ``rank=False`` uses the draws themselves.

They are implemented here because the core depends only on torch; a test compares them with arviz-stats.
"""

from collections.abc import Callable
from math import log10, prod

import torch
from torch import Tensor

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError, ShapeError

_FEWEST = 4
"""Draws in half a chain."""
_AT_ONCE = 2**22
"""Draws that are processed together, to limit memory."""


@checked
def split_rhat(draws: Tensor, *, rank: bool = True) -> Tensor:
    """Split R-hat of each quantity: the root of var+ / W, where W is the variance within half chains.

    var+ = (n - 1) / n W + B / n, with B / n the variance of the means of half chains. By ranks it is the larger of two:
    of the draws, and of their distances from the median, which sees chains that differ in spread alone. Values below
    1.01 are required. A constant quantity has NaN; one that is constant in each chain but differs between chains has
    inf.

    Law: split_rhat(draws) does not change under an increasing map of the draws, up to the folded part.

    Shapes: (chains, n, ...) -> (...), float64; n of 8 or more.

    >>> _ = torch.manual_seed(0)
    >>> same = torch.randn(4, 500)
    >>> bool(split_rhat(same) < 1.01), bool(split_rhat(same + torch.arange(4.0)[:, None]) > 1.1)
    (True, True)
    """
    return _each_quantity(draws, _ranked_rhat if rank else _rhat)


@checked
def effective_sample_size(draws: Tensor, *, rank: bool = True) -> Tensor:
    """How many independent draws would give the mean as well as these: chains * n / tau; "bulk" with ``rank=True``.

    tau = 1 + 2 (rho_1 + rho_2 + ...), with the autocorrelations of all half chains together, cut where Geyer's initial
    positive sequence ends and made monotone. Antithetic chains can have more than chains * n. A quantity that never
    changes has NaN.

    Law: chains with autocorrelation r^t have about chains * n * (1 - r) / (1 + r).

    Shapes: (chains, n, ...) -> (...), float64; n of 8 or more.

    >>> _ = torch.manual_seed(0)
    >>> bool(abs(effective_sample_size(torch.randn(4, 1000)) / 4000 - 1) < 0.2)
    True
    """
    return _each_quantity(draws, (lambda halves: _ess(_normal_scores(halves))) if rank else _ess)


def _each_quantity(draws: Tensor, statistic: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of half chains (quantities, 2 * chains, n // 2) -> (quantities), for draws (chains, n, ...)."""
    _check(draws)
    rest = draws.shape[2:]
    half = draws.shape[1] // 2
    halves = torch.cat([draws[:, :half], draws[:, -half:]])  # an odd n loses the draw in its middle
    columns = halves.reshape(*halves.shape[:2], prod(rest)).movedim(-1, 0)
    parts = columns.split(max(1, _AT_ONCE // (halves.shape[0] * half)))
    if not columns.numel():
        return draws.new_empty(rest, dtype=torch.float64)
    values = torch.cat([statistic(part.double()) for part in parts])
    constant = columns.amax((1, 2)) == columns.amin((1, 2))
    return values.masked_fill(constant, torch.nan).reshape(rest)


def _check(draws: object) -> None:
    if not isinstance(draws, Tensor):
        raise InputTypeError(f"draws must be a torch.Tensor, got {type(draws).__name__}; convert with torch.as_tensor")
    if draws.ndim < 2 or draws.shape[0] < 1:
        raise ShapeError(f"draws must be (chains, n, ...), got {tuple(draws.shape)}; one chain is draws.unsqueeze(0)")
    if draws.shape[1] < 2 * _FEWEST:
        raise ShapeError(
            f"draws has {draws.shape[1]} draws in each chain, but halves of {_FEWEST} are the least: give "
            f"{2 * _FEWEST} or more"
        )
    if not draws.isfinite().all():
        raise ArgumentError("draws has NaN or inf; a chain that diverged has no diagnostics: make its steps smaller")


def _ranked_rhat(halves: Tensor) -> Tensor:
    """The larger of bulk and folded; the latter is undefined, and left out, where all distances are equal."""
    ordered = halves.flatten(1).sort().values
    size = ordered.shape[1]  # even: there are two halves to each chain
    median = ordered[:, size // 2 - 1 : size // 2 + 1].mean(1)[:, None, None]
    return torch.fmax(_rhat(_normal_scores(halves)), _rhat(_normal_scores((halves - median).abs())))


def _rhat(halves: Tensor) -> Tensor:
    n = halves.shape[-1]
    within = (halves - halves[..., :1]).var(-1).mean(-1)  # exactly zero for constant chains
    between = halves.mean(-1).var(-1)
    return ((n - 1) / n + between / within).sqrt()


def _normal_scores(halves: Tensor) -> Tensor:
    """Phi^-1((rank - 3/8) / (size + 1/4)), ranks over all half chains; equal draws share the mean of their ranks."""
    flat = halves.flatten(1).contiguous()
    ordered = flat.sort().values.contiguous()
    below, upto = torch.searchsorted(ordered, flat), torch.searchsorted(ordered, flat, right=True)
    rank = 0.5 * (below + upto + 1).double()
    scores: Tensor = torch.special.ndtri((rank - 0.375) / (flat.shape[1] + 0.25))
    return scores.reshape(halves.shape)


def _ess(halves: Tensor) -> Tensor:
    chains, n = halves.shape[-2:]
    covariance = _autocovariance(halves).mean(-2)
    within = covariance[:, :1] * (n / (n - 1))
    variance = covariance[:, :1] + halves.mean(-1).var(-1, keepdim=True)
    rho = 1.0 - (within - covariance) / variance
    rho[:, 0] = 1.0
    tau = torch.clamp_min(_correlation_time(rho), 1.0 / log10(chains * n))  # no better than that can be believed
    return chains * n / tau


def _autocovariance(chains: Tensor) -> Tensor:
    """At lags 0 ... n - 1, divided by n, by the Fourier transform padded to 2 n: (..., n) -> (..., n)."""
    n = chains.shape[-1]
    spectrum = torch.fft.rfft(chains - chains.mean(-1, keepdim=True), n=2 * n)
    lags: Tensor = torch.fft.irfft(spectrum.abs().square(), n=2 * n)[..., :n]
    return lags / n


def _correlation_time(rho: Tensor) -> Tensor:
    """-1 + 2 (sum of rho), by Geyer: sums of neighbours (lags 2k and 2k + 1) are positive and decrease.

    The sum ends before the first pair that is not positive, of which the even lag still counts once, if positive.
    """
    n = rho.shape[-1]
    even, odd = rho[:, 0 : n - 1 : 2], rho[:, 1::2]
    pairs = even + odd
    positive = (pairs > 0.0).cumprod(-1)
    positive[:, (n - 3) // 2 :] = 0  # the longest lags rest on too few pairs of draws
    last = even.gather(-1, positive.sum(-1, keepdim=True)).squeeze(-1).clamp_min(0.0)
    return -1.0 + 2.0 * (pairs.cummin(-1).values * positive).sum(-1) + last
