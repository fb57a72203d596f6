"""Active learning: which rows of a pool to label next.

BALD and predictive entropy are for any target that has an entropy here; variance reduction is for numbers with Gaussian
noise. ``choose`` takes the rows with the highest scores; for variance reduction one after the other, given
those before it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whvi import rows as of
from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError, ShapeError, UnsupportedError
from whvi.likelihoods import Gaussian, Likelihood
from whvi.predictive.functions import Functions, Group
from whvi.predictive.predict import functions_of, predict
from whvi.rows import Inputs

METHODS = ("bald", "entropy", "variance")
"""Methods of ``choose``."""


@checked
def predictive_entropy(
    model: nn.Module, pool: Inputs, *, likelihood: Likelihood | None = None, samples: int = 64, seed: int | None = None
) -> Tensor:
    """H[y | x] in nats, the total uncertainty of the target of each row: (N, ...) -> (N).

    It also selects very noisy rows, whose labels do not help; ``bald`` does not.

    >>> import whvi
    >>> from whvi.likelihoods import Categorical
    >>> model = nn.Sequential(whvi.nn.WHVILinear(4, 16), nn.ReLU(), whvi.nn.WHVILinear(16, 3))
    >>> predictive_entropy(model, torch.randn(100, 4), likelihood=Categorical(3)).shape
    torch.Size([100])
    """
    return _of_rows(predict(model, pool, samples, likelihood=likelihood, seed=seed).entropy)


@checked
def bald(
    model: nn.Module, pool: Inputs, *, likelihood: Likelihood | None = None, samples: int = 64, seed: int | None = None
) -> Tensor:
    """I(y; f | x) = H[y | x] - E[H[y | x, f]] in nats, the information of a label about the function: (N, ...) -> (N).

    The score of Houlsby and others (2011), "Bayesian active learning by disagreement": high if each draw is certain
    but draws disagree.

    Law: 0 <= bald <= predictive_entropy for classes; 0 if all draws are equal.

    >>> from whvi.likelihoods import Categorical
    >>> bald(nn.Linear(4, 3), torch.randn(2, 4), likelihood=Categorical(3)).tolist()  # one function
    [0.0, 0.0]
    """
    return _of_rows(predict(model, pool, samples, likelihood=likelihood, seed=seed).mutual_information)


@checked
def variance_reduction(
    model: nn.Module,
    pool: Inputs,
    reference: Inputs | None = None,
    *,
    likelihood: Likelihood | None = None,
    samples: int = 256,
    seed: int | None = None,
) -> Tensor:
    """The reduction of the mean variance of the function at other rows by a label of each row: (N, ...) -> (N),
    float64.

    mean over x' of cov(f(x'), f(x))² / (var f(x) + noise(x)), after Cohn (1996). Several outputs are labelled together,
    and the variance is their sum.

    Args:
        model: as for ``whvi.predict``.
        pool: rows that can be labelled (N, ...).
        reference: rows where the function matters (M, ...); default the pool itself.
        likelihood: a ``Gaussian``; default ``model.likelihood``.
        samples: number S of draws for covariances. With few draws covariances are noisy: the score of an unrelated row
            is about var f(x) / (var f(x) + noise) times 1 / S of the variance.
        seed: of all draws; default a new one.

    Memory is that of S² numbers and one chunk of rows, whatever N and M are.

    Law: exact for Gaussian functions in the limit of many samples; 0 <= score <= mean variance of the function; the
    same for f + c; c² times as much for c f with noise c² as large.

    >>> import whvi
    >>> from whvi.likelihoods import Gaussian
    >>> model, x = whvi.nn.WHVILinear(4, 1), torch.randn(100, 4)
    >>> variance_reduction(model, x, likelihood=Gaussian(variance=0.1)).shape
    torch.Size([100])
    """
    functions, others = _gaussian_functions(model, pool, reference, likelihood, samples, seed)
    gram = _gram(others)

    def reduce(_: slice, groups: Iterator[Group]) -> tuple[Tensor, ...]:
        spread, noise = _spread(groups)
        return (_reduction(spread, noise, gram),)

    return functions.run(reduce, rows=_rows(functions))[0]


@checked
def choose(
    model: nn.Module,
    pool: Inputs,
    count: int,
    method: str = "bald",
    *,
    reference: Inputs | None = None,
    likelihood: Likelihood | None = None,
    samples: int | None = None,
    seed: int | None = None,
) -> Tensor:
    """The rows of the pool to label next, best first: their indices (count), int64.

    Args:
        model: as for ``whvi.predict``.
        pool: rows that can be labelled (N, ...).
        count: number of rows.
        method: "bald", "entropy" or "variance". The last chooses one row after the other and accounts for the
            information of earlier rows, which does not depend on their labels. The first two score each row
            independently, and may choose redundant rows, so choose few at a time.
        reference: for "variance", rows where the function matters; default the pool.
        likelihood, samples, seed: as for the scores. "variance" stores the outputs of all draws for the pool.

    >>> import whvi
    >>> from whvi.likelihoods import Categorical
    >>> model = nn.Sequential(whvi.nn.WHVILinear(4, 16), nn.ReLU(), whvi.nn.WHVILinear(16, 3))
    >>> choose(model, torch.randn(100, 4), 5, likelihood=Categorical(3)).shape
    torch.Size([5])
    """
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if reference is not None and method != "variance":
        raise ArgumentError(f"reference is for the method 'variance', not for {method!r}; omit it")
    of.check(pool)
    _check_count(count, of.count(pool))
    if method == "variance":
        samples = 256 if samples is None else samples
        functions, others = _gaussian_functions(model, pool, reference, likelihood, samples, seed)
        return _one_by_one(functions, _gram(others), count)
    score, samples = bald if method == "bald" else predictive_entropy, 64 if samples is None else samples
    return highest(score(model, pool, likelihood=likelihood, samples=samples, seed=seed), count)


@checked
def highest(scores: Tensor, count: int) -> Tensor:
    """The indices of the rows with the highest scores, best first, with ties in order: (N) -> (count), int64.

    >>> highest(torch.tensor([0.1, 0.7, 0.7, 0.3]), 2).tolist()
    [1, 2]
    """
    if not isinstance(scores, Tensor):
        raise InputTypeError(f"scores must be a torch.Tensor, got {type(scores).__name__}; use torch.as_tensor")
    if scores.ndim != 1:
        raise ShapeError(f"scores must have shape (N,), one for each row, got {tuple(scores.shape)}")
    _check_count(count, len(scores))
    _check_scores(scores)
    return scores.argsort(descending=True, stable=True)[:count]


class _Spread(NamedTuple):
    """What the functions say of some rows."""

    spread: Tensor
    """(f - mean f) / sqrt(S), so that spreadᵀ spread is the covariance: (rows, S, outputs), float64."""
    noise: Tensor
    """Variance of the noise, mean over functions: (rows, outputs), float64."""


def _spread(groups: Iterator[Group]) -> _Spread:
    means, noises = [], []
    for f, likelihood in groups:
        assert likelihood is not None
        means.append(likelihood.mean(f).double())
        noises.append(likelihood.variance(f).double())
    f, noise = torch.cat(means), torch.cat(noises)
    return _Spread((f - f.mean(0)).movedim(0, 1) / len(f) ** 0.5, noise.mean(0))


def _gram(functions: Functions) -> Tensor:
    """G = mean over rows of spread spreadᵀ: (S, S). Any cov(f(x'), f(x))² summed over x' is a quadratic form in it."""
    total = torch.zeros((), dtype=torch.float64, device=functions.device)

    def reduce(rows: slice, groups: Iterator[Group]) -> tuple[Tensor, ...]:
        nonlocal total
        wide = _spread(groups).spread.movedim(1, 0).flatten(1)
        total = wide @ wide.T + (total if rows.start else 0.0)  # the first rows may come twice, see ``Functions.run``
        return ()

    functions.run(reduce, rows=_rows(functions))
    return total / functions.rows


def _reduction(spread: Tensor, noise: Tensor, gram: Tensor) -> Tensor:
    """tr((C + noise)⁻¹ uᵀ G u) with u the spread of a row and C = uᵀ u its covariance: (rows)."""
    told = spread.mT @ gram @ spread
    law = spread.mT @ spread + noise.diag_embed()
    value: Tensor = torch.linalg.solve(law, told).diagonal(dim1=-2, dim2=-1).sum(-1)
    return value


def _one_by_one(functions: Functions, gram: Tensor, count: int) -> Tensor:
    """The best row, then the best one once that is labelled, and so on: (count).

    A label of output u with noise r makes the covariance C - (C u)(C u)ᵀ / (uᵀu + r), whatever it says. With the spread
    as a root of the covariance that is spread <- (I - a u uᵀ) spread, a = (1 - sqrt(r / (uᵀu + r))) / uᵀu (Potter).
    """
    spread, noise = functions.run(lambda _, groups: _spread(groups), rows=_rows(functions))
    chosen: list[int] = []
    for _ in range(count):
        scores = _reduction(spread, noise, gram)
        _check_scores(scores)
        scores[chosen] = -1.0
        row = int(scores.argmax())
        chosen.append(row)
        for output in range(noise.shape[1]):
            u, r = spread[row, :, output].clone(), noise[row, output]
            square = u.square().sum()
            if square > 0:
                factor = (1.0 - (r / (square + r)).sqrt()) / square
                spread = spread - factor * u[:, None] * (u @ spread)[:, None]
                gram = gram - factor * torch.outer(u, u @ gram)
                gram = gram - factor * torch.outer(gram @ u, u)
    return torch.tensor(chosen, device=functions.device)


def _gaussian_functions(
    model: nn.Module,
    pool: Inputs,
    reference: Inputs | None,
    likelihood: Likelihood | None,
    samples: int,
    seed: int | None,
) -> tuple[Functions, Functions]:
    """The same functions at the pool and at the reference."""
    functions = functions_of(model, pool, samples, likelihood, seed=seed)
    if not isinstance(functions.likelihood, Gaussian):
        found = "no likelihood" if functions.likelihood is None else type(functions.likelihood).__name__
        raise UnsupportedError(
            f"variance reduction is for targets with Gaussian noise, but there is {found}; give likelihood=Gaussian(), "
            "or take bald, which is for classes too"
        )
    if functions.likelihood.positions:
        raise UnsupportedError("variance reduction is for one target of each row, but these have positions; take bald")
    others = functions
    if reference is not None:
        others = functions_of(model, reference, samples, likelihood, seed=functions.seed)
        others.source = functions.source  # one that has learned to go function by function does so for both
    for name, rows in (("pool", functions.rows), ("reference", others.rows)):
        if not rows:
            raise ShapeError(f"{name} has no rows; give at least one")
    return functions, others


def _of_rows(score: Tensor) -> Tensor:
    """The sum over the positions of a row, where it has some: (N, *positions) -> (N)."""
    return score.flatten(1).sum(1) if score.ndim > 1 else score


def _rows(functions: Functions) -> int:
    """Rows of a piece, where all functions of a row are held at once."""
    assert functions.likelihood is not None
    return functions.whole_rows(functions.likelihood.features)


def _check_scores(scores: Tensor) -> None:
    """Of what is no number there is no highest."""
    if bad := int(scores.isnan().sum()):
        raise ArgumentError(f"{bad} of {len(scores)} scores are NaN; check the output of the model for these rows")


def _check_count(count: int, rows: int) -> None:
    """How many rows to choose, of so many."""
    if whole_number("count", count) > rows:
        raise ArgumentError(f"count is {count}, but the pool has {rows} rows; choose at most that many")
