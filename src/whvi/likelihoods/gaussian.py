"""Targets with Gaussian noise."""

from math import e, log, pi

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.arguments import positive_number, whole_number
from whvi.errors import ArgumentError
from whvi.likelihoods.base import Likelihood, check_positions, real_targets, seed_for
from whvi.ops import normal

_LOG_2_PI = log(2.0 * pi)
_NOISE = ("scalar", "output", "input")


class Gaussian(Likelihood):
    """y ~ N(f, variance), independent outputs.

    Args:
        outputs: numbers in a target.
        noise: "scalar", one variance for all outputs; "output", one for each; "input", one for each row and output: the
            network then has 2 * outputs outputs, the means and the logarithms of variance(x) / variance.
        variance: initial variance of the noise.
        learned: False fixes the variance.
        frozen_steps: first steps of ``whvi.fit`` with a fixed variance, so that the function is fitted first.
        positions: axes of positions, such as time or pixels, between rows and outputs: y (N, *positions, outputs).

    >>> likelihood = Gaussian(variance=1.0)
    >>> likelihood.log_prob(torch.zeros(3, 1), torch.zeros(3, 1))
    tensor([-0.9189, -0.9189, -0.9189], grad_fn=<MulBackward0>)
    """

    @checked
    def __init__(
        self,
        outputs: int = 1,
        noise: str = "scalar",
        *,
        variance: float = 0.22313016,
        learned: bool = True,
        frozen_steps: int = 0,
        positions: int = 0,
    ) -> None:
        super().__init__()
        if noise not in _NOISE:
            raise ArgumentError(f"noise must be one of {', '.join(_NOISE)}, got {noise!r}")
        variance = positive_number("variance", variance)
        self.outputs, self.positions = whole_number("outputs", outputs), check_positions(positions)
        self.kind, self.frozen_steps = noise, whole_number("frozen_steps", frozen_steps, least=0)
        start = torch.full((outputs,) if noise == "output" else (), log(variance))
        self.log_variance: Tensor
        if learned:
            self.log_variance = nn.Parameter(start)
        else:
            self.register_buffer("log_variance", start)

    @property
    def features(self) -> int:
        """One or two numbers for each output."""
        return 2 * self.outputs if self.kind == "input" else self.outputs

    @property
    def noise(self) -> float:
        """Standard deviation; the root of the mean variance if there are several."""
        return float(self.log_variance.detach().exp().mean().sqrt())

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """Sum of log N(y; f, variance): (..., N, *positions, features), (N, *positions, outputs) -> (..., N)."""
        self.check_pair(f, y, self.outputs)
        mean, log_variance = self._parts(f)
        square = (y - mean).square() * (-log_variance).exp()
        return self.over_positions(-0.5 * (square + (log_variance + _LOG_2_PI)).sum(-1))

    def mean(self, f: Tensor) -> Tensor:
        """The first ``outputs`` numbers of f."""
        self.check(f)
        return f[..., : self.outputs]

    def variance(self, f: Tensor) -> Tensor:
        """Of the noise."""
        return self._log_variance(f).exp()

    def entropy(self, f: Tensor) -> Tensor:
        """1/2 log(2 pi e variance), summed over outputs."""
        return 0.5 * (self._log_variance(f) + log(2.0 * pi * e)).sum(-1)

    def cdf(self, f: Tensor, y: Tensor) -> Tensor:
        """Phi((y - f) / std)."""
        self.check_pair(f, y, self.outputs)
        distance = (self.mean(f) - y) * (-0.5 * self._log_variance(f)).exp()
        value: Tensor = 0.5 * torch.erfc(distance * 0.5**0.5)  # all digits, far out as well
        return value

    def sample(self, f: Tensor, seed: int | Tensor | None = None) -> Tensor:
        """f with noise: (..., N, outputs)."""
        mean, log_variance = self.mean(f), self._log_variance(f)
        noise = normal(seed_for(f, seed), 0, mean.shape, dtype=mean.dtype)
        return mean + (0.5 * log_variance).exp() * noise

    def targets(self, y: Tensor) -> Tensor:
        """(N, *positions, outputs) of finite numbers; (N, *positions) will do for one output."""
        return real_targets(y, self.outputs, self.positions)

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"outputs={self.outputs}, noise={self.kind!r}" + f", positions={self.positions}" * bool(self.positions)

    def _parts(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Means, and log-variances in a shape that broadcasts to them."""
        log_variance = self.log_variance.to(f.dtype)
        if log_variance.ndim > 1:  # of several models, (models, 1, outputs): as many axes as f has for its positions
            log_variance = log_variance[(slice(None), *(None,) * (f.ndim - log_variance.ndim))]
        if self.kind == "input":
            log_variance = log_variance + f[..., self.outputs :]
        return self.mean(f), log_variance

    def _log_variance(self, f: Tensor) -> Tensor:
        self.check(f)
        mean, log_variance = self._parts(f)
        return log_variance.expand(mean.shape)
