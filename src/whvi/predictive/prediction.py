"""Predictive distributions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, log
from typing import SupportsFloat

import torch
from torch import Tensor

from whvi.arguments import any_whole_number, whole_number
from whvi.errors import ArgumentError, DeviceError, DivergenceError, InputTypeError, ShapeError, UnsupportedError
from whvi.likelihoods import Categorical, Discrete, Gaussian, Likelihood
from whvi.ops import seeds_from
from whvi.predictive import metrics, mixture
from whvi.predictive.functions import Functions, Group


class Prediction:
    """The predictive distribution of N targets: the mixture of p(y | f) over S draws f, from ``whvi.predict``.

    Fields are computed at once. Methods evaluate the same draws again, in chunks, so memory does not grow
    with S. They need the unchanged model, likelihood and x, and raise an error if one has changed.

    Law: variance == epistemic + aleatoric.
    """

    mean: Tensor
    """E[y]: (N, outputs); the probabilities of a discrete target. Without a likelihood, the mean function (N, ...)."""
    epistemic: Tensor
    """Var[E[y | f]] over the S draws (divided by S): uncertainty about the function. Zero for one draw."""
    aleatoric: Tensor
    """E[Var[y | f]]: noise, which more data do not reduce. Zero without a likelihood."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self.mean, self.epistemic, self.aleatoric, *self._mean_entropy = functions.run(
            lambda _, groups: mixture.moments(groups, functions.count)
        )

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return f"Prediction(rows={len(self)}, functions={self.functions}, draws={self._functions.draws!r})"

    @property
    def functions(self) -> int:
        """S, the number of draws."""
        return self._functions.count

    @property
    def seed(self) -> int:
        """The seed with which ``whvi.predict`` reproduces this prediction."""
        return self._functions.seed

    @property
    def variance(self) -> Tensor:
        """Var[y]: (N, outputs)."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    @property
    def entropy(self) -> Tensor:
        """Entropy of the predictive distribution in nats: (N,); at each position, if the likelihood has positions.

        For several binary outputs, the sum of their entropies. A Gaussian target may have one output; the entropy of
        its mixture is computed on a grid at each call.
        """
        likelihood = self._need("entropy")
        bad = len(self) - int((self.mean.isfinite() & self.aleatoric.isfinite()).flatten(1).all(1).sum())
        if bad:
            raise DivergenceError(
                f"the predictive distribution is NaN or infinite in {bad} of {len(self)} rows: no entropy; see what "
                "the model gives for them"
            )
        if isinstance(likelihood, Discrete):
            return likelihood.entropy_of(self.mean)
        gaussian = self._gaussian()
        return self._whole(lambda f: (mixture.gaussian_entropy(f, gaussian),))[0]

    @property
    def mutual_information(self) -> Tensor:
        """I(y; f) = entropy - E[entropy of p(y | f)] in nats, the information of a target about the function: (N,).

        For several binary outputs, the sum over outputs of I(y_k; f). This is an upper bound of I(y; f), because
        outputs may have common information.
        """
        entropy = self.entropy
        discrete = isinstance(self._functions.likelihood, Discrete)
        expected = self._mean_entropy[0] if discrete else self._average(_entropy, self.mean)
        return (entropy - expected).clamp_min(0.0)

    def quantile(self, q: SupportsFloat | Sequence[SupportsFloat] | Tensor) -> Tensor:
        """Quantiles of each output: (N, outputs), with an axis (Q,) in front for a sequence of Q levels in (0, 1).

        Without a likelihood, quantiles of the draws.
        """
        if getattr(q, "ndim", 0) == 0 and isinstance(q, SupportsFloat):
            return self._quantiles([(_level("the level of a quantile", q), False)])[0]
        if isinstance(q, str) or not isinstance(q, Iterable):
            raise InputTypeError(f"levels of quantiles must be a number or a sequence, got {type(q).__name__}")
        levels = [_level("the level of a quantile", level) for level in q]
        if not levels:
            raise ArgumentError("q has no levels; give at least one quantile, such as 0.5")
        return torch.stack(self._quantiles([(level, False) for level in levels]))

    def interval(self, level: SupportsFloat = 0.95) -> tuple[Tensor, Tensor]:
        """The central interval that contains each output with probability ``level``: its ends, (N, outputs) each."""
        outside = 0.5 - 0.5 * _level("level", level)
        low, high = self._quantiles([(outside, False), (outside, True)])
        return low, high

    def cdf(self, y: Tensor) -> Tensor:
        """P(target <= y) of each output, which is uniform if the distribution is right: (N, outputs) -> the same.

        Without a likelihood, the fraction of draws that are not above y.
        """
        return self._average(_cdf, self._targets(y))

    def log_prob(self, y: Tensor) -> Tensor:
        """log E[p(y | f)], the log predictive density of each row: (N,)."""
        self._need("density")
        y = self._targets(y)

        def reduce(rows: slice, groups: Iterator[Group]) -> tuple[Tensor, ...]:
            parts = [_log_prob(group, y[rows]).double().logsumexp(0) for group in groups]
            return ((torch.stack(parts).logsumexp(0) - log(self.functions)).to(self.mean.dtype),)

        return self._functions.run(reduce)[0]

    def expected_log_prob(self, y: Tensor) -> Tensor:
        """E[log p(y | f)] of each row, never above ``log_prob``: (N,)."""
        self._need("density")
        return self._average(_log_prob, self._targets(y))

    def mnll(self, y: Tensor) -> Tensor:
        """Mean over rows of -log E[p(y | f)], in nats; a scalar."""
        return metrics.mnll(self.log_prob(y))

    def expected_nll(self, y: Tensor) -> Tensor:
        """Mean over rows of E[-log p(y | f)], never below ``mnll``, and sometimes reported as MNLL; a scalar."""
        return metrics.mnll(self.expected_log_prob(y))

    def rmse(self, y: Tensor) -> Tensor:
        """Root of the mean square of mean - y over rows and outputs; a scalar."""
        if isinstance(self._functions.likelihood, Categorical):
            raise UnsupportedError("classes have no RMSE; use whvi.predictive.metrics.brier")
        return metrics.rmse(self.mean, self._targets(y))

    def samples(self, count: int | None = None) -> Tensor:
        """The draws themselves, all or the first ``count``: (count, N, features)."""
        count = self.functions if count is None else any_whole_number("count", count)
        if not 1 <= count <= self.functions:
            raise ArgumentError(f"count must be 1 ... {self.functions}, the number of functions, got {count}")
        found = self._functions.run(lambda _, groups: (torch.cat([f for f, _ in groups]).movedim(0, 1),), count)
        return found[0].movedim(1, 0)

    def sample_y(self, count: int | None = None) -> Tensor:
        """Targets drawn from the predictive distribution: (count, N, [outputs]). Target i comes from draw i mod S.

        They are identical at each call with this ``count``.
        """
        self._need("distribution of targets")
        count = self.functions if count is None else whole_number("count", count)
        f = self.samples(min(count, self.functions))
        f = f[torch.arange(count, device=f.device) % f.shape[0]]
        likelihood = self._functions.source.likelihood(range(count))
        assert likelihood is not None
        with torch.no_grad():
            return likelihood.sample(f, seeds_from(~self.seed, ()).to(f.device))

    def _quantiles(self, levels: Sequence[tuple[float, bool]]) -> tuple[Tensor, ...]:
        """One for each level, of what is below or (True) above: (N, outputs)."""
        likelihood = self._functions.likelihood
        return self._whole(lambda f: tuple(mixture.quantile(f, likelihood, *level) for level in levels))

    def _average(self, value: Callable[[Group, Tensor], Tensor], y: Tensor) -> Tensor:
        """The mean over functions of a value (functions, rows, ...)."""

        def reduce(rows: slice, groups: Iterator[Group]) -> tuple[Tensor, ...]:
            parts = [value(group, y[rows]).sum(0, dtype=torch.float64) for group in groups]
            return ((torch.stack(parts).sum(0) / self.functions).to(self.mean.dtype),)

        return self._functions.run(reduce)[0]

    def _whole(self, value: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Values that need all functions of a row at once, in chunks of rows that are small enough for that."""
        likelihood = self._functions.likelihood
        positions = self.mean.shape[1:-1].numel()
        numbers = self.mean.shape[1:].numel() if likelihood is None else positions * likelihood.features

        def reduce(_: slice, groups: Iterator[Group]) -> tuple[Tensor, ...]:
            parts = value(torch.cat([f for f, _ in groups]))
            return tuple(part.to(self.mean.dtype) for part in parts)

        return self._functions.run(reduce, rows=self._functions.whole_rows(numbers))

    def _need(self, what: str) -> Likelihood:
        likelihood = self._functions.likelihood
        if likelihood is None:
            raise UnsupportedError(f"there is no {what} without a likelihood; use whvi.predict(..., likelihood=...)")
        return likelihood

    def _gaussian(self) -> Gaussian:
        """The likelihood, if it is one whose mixture a grid can hold."""
        likelihood = self._need("entropy")
        if not isinstance(likelihood, Gaussian):
            raise UnsupportedError(f"the entropy of a mixture of {type(likelihood).__name__} is not available")
        if likelihood.outputs > 1:
            raise UnsupportedError(
                f"the entropy of a mixture of Gaussians is found on a grid, for one output, but there are "
                f"{likelihood.outputs}; use -log_prob at draws of sample_y"
            )
        return likelihood

    def _targets(self, y: Tensor) -> Tensor:
        """y as the likelihood takes it, or in the shape of the mean; with a row of zeros where there are no rows."""
        likelihood = self._functions.likelihood
        if not isinstance(y, Tensor):
            raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
        if y.device != self.mean.device:
            raise DeviceError(f"y is on {y.device}, but the prediction is on {self.mean.device}; use y.to")
        if likelihood is not None:
            y = likelihood.targets(y)
        elif y.shape != self.mean.shape:
            raise ShapeError(f"y has shape {tuple(y.shape)}, but the functions are {tuple(self.mean.shape)}")
        if y.shape[0] != len(self):
            raise ShapeError(f"y has {y.shape[0]} rows, but {len(self)} were predicted; give a target for each")
        there = tuple(self.mean.shape[1:-1])
        if likelihood is not None and (given := likelihood.output_shape(y)[1:-1]) != there:
            raise ShapeError(f"y has positions {given}, but {there} were predicted; give a target for each")
        return y if len(self) else y.new_zeros((1, *y.shape[1:]))


def _level(name: str, value: object) -> float:
    """A number between 0 and 1, of any kind that is one number."""
    if not isinstance(value, SupportsFloat) or getattr(value, "ndim", 0) != 0:
        raise InputTypeError(f"{name} must be a number, got {type(value).__name__}")
    level = inf if isinstance(value, int) and abs(value) > 1 else float(value)  # the largest have no float
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"{name} must be between 0 and 1, got {level}")
    return level


def _cdf(group: Group, y: Tensor) -> Tensor:
    f, likelihood = group
    return (f <= y).to(f.dtype) if likelihood is None else likelihood.cdf(f, y)


def _log_prob(group: Group, y: Tensor) -> Tensor:
    f, likelihood = group
    assert likelihood is not None
    return likelihood.log_prob(f, y)


def _entropy(group: Group, _: Tensor) -> Tensor:
    f, likelihood = group
    assert likelihood is not None
    return likelihood.entropy(f)
