"""Gaussian processes by inducing points, and exact ones, as gpytorch has them: the rivals of random features.

gpytorch is an extra, and is imported when a function here is called. All of this is in float64, with the jitter of
1e-6 that gpytorch adds to kernel matrices then; it is also GPflow's, which the paper used, and so is the least noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whvi.errors import ArgumentError, MissingPackageError
from whvi_paper.jobs import Report
from whvi_paper.processes.optimisation import Optimisation, minimise

LEAST_NOISE = 1e-6
"""Variance."""
TEST_ROWS = 1024
"""Rows that are predicted at a time."""
LARGEST = 100_000
"""Matrices up to this size are factorised; gpytorch would iterate from 800 on."""
COVARIANCES = ("diagonal", "full")


@dataclass(frozen=True)
class Predictive:
    """A Gaussian distribution of each target."""

    mean: Tensor
    """(N)."""
    variance: Tensor
    """(N), with the noise."""
    noise: float
    """Its standard deviation."""

    def metrics(self, y: Tensor) -> dict[str, float]:
        """RMSE, MNLL and the noise, for targets (N).

        >>> law = Predictive(torch.zeros(2), torch.ones(2), 0.1)
        >>> law.metrics(torch.tensor([1.0, -1.0])) == {"rmse": 1.0, "mnll": 0.5 + 0.9189385332046727, "noise": 0.1}
        True
        """
        law = torch.distributions.Normal(self.mean.double(), self.variance.double().sqrt())
        rmse = (self.mean.double() - y).square().mean().sqrt()
        return {"rmse": float(rmse), "mnll": float(-law.log_prob(y.double()).mean()), "noise": self.noise}


Predict = Callable[[Tensor], Predictive]
"""Of rows (N, F)."""


def gpytorch() -> Any:
    """The package, or the error that says how to get it."""
    try:
        import gpytorch
    except ModuleNotFoundError:
        raise MissingPackageError("inducing points need gpytorch: pip install 'whvi[gp]'") from None
    return gpytorch


def kernel(inputs: int) -> Any:
    """RBF with a lengthscale for each input, at the paper's start: sqrt(F / 2), and variance 1."""
    kernels = gpytorch().kernels
    found = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=inputs)).double()
    found.base_kernel.lengthscale = torch.tensor(inputs / 2, dtype=torch.float64).sqrt()
    found.outputscale = 1.0
    return found


def gaussian_likelihood(noise_variance: float) -> Any:
    """With a noise that may fall to ``LEAST_NOISE``."""
    package = gpytorch()
    floor = package.constraints.GreaterThan(LEAST_NOISE)
    found = package.likelihoods.GaussianLikelihood(noise_constraint=floor).double()
    found.noise = torch.tensor(noise_variance, dtype=torch.float64)  # a number would be rounded to float32
    return found


def variational_parameters(points: int, inputs: int, covariance: str) -> int:
    """Numbers that are optimised for the posterior: where the points are, means, and variances or a triangle.

    >>> variational_parameters(10, 8, "diagonal"), variational_parameters(10, 8, "full")
    (100, 145)
    """
    return points * inputs + points + (points if covariance == "diagonal" else points * (points + 1) // 2)


def points_for(parameters: int, inputs: int, covariance: str) -> int:
    """The fewest inducing points that have at least so many parameters.

    >>> points_for(256, 8, "diagonal")
    26
    """
    points = 1
    while variational_parameters(points, inputs, covariance) < parameters:
        points += 1
    return points


class Sparse(NamedTuple):
    """Modules of gpytorch that make up a process with inducing points."""

    process: Any
    likelihood: Any
    objective: Any
    """The bound, divided by the number of rows."""


def sparse_model(x: Tensor, points: int, covariance: str, settings: Optimisation) -> Sparse:
    """A process for rows x (N, F) as it starts: whitened, its points at random rows, its distribution near the prior.

    Args:
        points: how many.
        covariance: "diagonal" or "full", of the whitened values at the points.
    """
    if covariance not in COVARIANCES:
        raise ArgumentError(f"covariance {covariance!r} is unknown; use one of: {', '.join(COVARIANCES)}")
    _check_rows(x)
    package, kinds = gpytorch(), gpytorch().variational
    kind = {"diagonal": kinds.MeanFieldVariationalDistribution, "full": kinds.CholeskyVariationalDistribution}
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        start = x[torch.randperm(len(x))[:points]].double()
        process = _sparse_process(package, start, kind[covariance](len(start)).double(), kernel(x.shape[1]))
        process(start)  # the first call sets the distribution, which is random
    likelihood = gaussian_likelihood(settings.noise_variance)
    return Sparse(process, likelihood, package.mlls.VariationalELBO(likelihood, process, num_data=len(x)))


def sparse(x: Tensor, y: Tensor, points: int, covariance: str, settings: Optimisation, report: Report) -> Predict:
    """Stochastic variational inference with inducing points (Hensman et al., 2013), for targets y (N)."""
    process, likelihood, objective = sparse_model(x, points, covariance, settings)
    x, y, draws = x.double(), y.double(), torch.Generator().manual_seed(settings.seed)

    def loss(step: int) -> Tensor:
        likelihood.raw_noise.requires_grad_(step >= settings.frozen_steps)
        rows = torch.randint(len(x), (min(settings.batch_size, len(x)),), generator=draws)
        bound: Tensor = objective(process(x[rows]), y[rows])
        return -bound

    minimise(loss, [*process.parameters(), *likelihood.parameters()], settings, report)
    return predictor(process, likelihood)


def exact(x: Tensor, y: Tensor, settings: Optimisation, report: Report) -> Predict:
    """Exact inference for few rows, hyperparameters by maximising the evidence: what a sparse one could reach."""
    _check_rows(x)
    package, x, y = gpytorch(), x.double(), y.double()
    likelihood = gaussian_likelihood(settings.noise_variance)
    process = _exact_process(package, x, y, likelihood, kernel(x.shape[1]))
    objective = package.mlls.ExactMarginalLogLikelihood(likelihood, process)

    def loss(step: int) -> Tensor:
        evidence: Tensor = objective(process(x), y)
        return -evidence

    with package.settings.max_cholesky_size(LARGEST):
        minimise(loss, process.parameters(), settings, report)
    return predictor(process, likelihood)


def predictor(process: Any, likelihood: Any) -> Predict:
    """What a process predicts as it is now."""
    process.eval()
    noise = float(likelihood.noise.detach())

    def predict(x: Tensor) -> Predictive:
        moments: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad(), gpytorch().settings.max_cholesky_size(LARGEST):
            for part in x.double().split(TEST_ROWS):
                law = process(part)
                moments.append((law.mean, law.variance))
        mean, variance = (torch.cat(parts) for parts in zip(*moments, strict=True))
        return Predictive(mean, variance + noise, sqrt(noise))

    return predict


def _check_rows(x: Tensor) -> None:
    if not len(x):
        raise ArgumentError("x has no rows; a process needs at least one")


def _sparse_process(package: Any, points: Tensor, law: Any, covariance: Any) -> Any:
    class Process(package.models.ApproximateGP):  # type: ignore[misc]  # a base from an extra
        def __init__(self) -> None:
            super().__init__(package.variational.VariationalStrategy(self, points, law))
            self.mean = package.means.ZeroMean()
            self.covariance = covariance

        def forward(self, x: Tensor) -> Any:
            return package.distributions.MultivariateNormal(self.mean(x), self.covariance(x))

    return Process()


def _exact_process(package: Any, x: Tensor, y: Tensor, likelihood: Any, covariance: Any) -> Any:
    class Process(package.models.ExactGP):  # type: ignore[misc]  # a base from an extra
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean = package.means.ZeroMean()
            self.covariance = covariance

        def forward(self, inputs: Tensor) -> Any:
            return package.distributions.MultivariateNormal(self.mean(inputs), self.covariance(inputs))

    return Process()
