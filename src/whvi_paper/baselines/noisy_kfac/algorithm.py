"""Noisy K-FAC: a matrix-variate Gaussian posterior by natural gradients, after Zhang, Sun, Duvenaud, Grosse (2018)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from whvi.arguments import positive_number, whole_number
from whvi.errors import ArgumentError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Members, Run, Terms
from whvi.inference.elbo import expected_log_likelihood
from whvi.inference.replicas import Replicas
from whvi.inference.schedules import PowerDecay, Schedule
from whvi.inference.stacked import Objective
from whvi.inference.svi import trainable
from whvi.likelihoods import Likelihood
from whvi.nn import kl
from whvi.nn.model import bayesian_layers
from whvi.posterior.base import wide
from whvi.rows import Inputs
from whvi_paper.baselines.noisy_kfac.calls import LayerCalls
from whvi_paper.baselines.noisy_kfac.curvature import BUFFERS, Curvature, gaussian_layers
from whvi_paper.baselines.noisy_kfac.natural import NaturalSteps

_FISHER = ("true", "empirical")


@dataclass(frozen=True)
class NoisyKFAC(Algorithm):
    """Noisy natural gradients for the matrix-variate Gaussian layers of a model, Adam for all other parameters.

    For N rows, a layer with prior variance v, and second moments A of its inputs and S of the gradients of its outputs,
    the posterior of [W b] has the covariance

        kl_weight / N * [A + pi sqrt(c)]^-1 (inputs)  x  [S + sqrt(c) / pi]^-1 (outputs),    c = kl_weight / (N v),

    where pi^2 is the ratio of the mean diagonals of A and S. The mean moves along the gradient of the bound for one
    row, multiplied by the same two inverses with c + damping in place of c. A and S are averages over steps that begin
    with those of the layer's own start. For a convolution A is summed over positions and S is averaged over them, after
    Grosse and Martens (2016).

    Law: the mean comes to rest at the maximum of the bound. The damped factors multiply to more than A x S + c: where
    the true posterior is Kronecker, as in linear regression, the variances come out too small, for A = a and S = s by
    the factor (a s + c) / (sqrt(a s) + sqrt(c))^2. That is 1 - 2 sqrt(c / (a s)) where there are many data.

    Args:
        learning_rate: initial one of the natural gradient; 1 is a Newton step without momentum.
        schedule: factor of both learning rates at each step; default the paper's.
        momentum: of the natural gradient.
        decay: of the averages of A and S.
        damping: only of the steps of the mean; it does not affect the posterior.
        kl_weight: of the KL; 1 for the evidence bound.
        fisher: "true", gradients for targets that the likelihood draws; or "empirical", for those of the batch.
        moments_every: steps between updates of A and S.
        update_every: steps between updates of the covariance and the inverses.
        clip: bound on the square of a step's length in the norm of the curvature, or None.
        adam_learning_rate: for the parameters of other layers and of the likelihood.

    >>> from whvi.likelihoods import Gaussian
    >>> from whvi_paper.baselines import MatrixGaussianLinear
    >>> x, layer = torch.randn(50, 2), MatrixGaussianLinear(2, 1)
    >>> run = NoisyKFAC(learning_rate=0.1).init(layer, Gaussian(variance=0.01, learned=False), n_data=50)
    >>> for step in range(200):
    ...     terms = run.update(x, x @ torch.ones(2, 1), step)
    >>> torch.allclose(layer.weight_at(), torch.ones(2), atol=0.1)
    True
    """

    learning_rate: float = 0.01
    schedule: float | Schedule = PowerDecay()  # noqa: RUF009 (it is frozen)
    momentum: float = 0.9
    decay: float = 0.99
    damping: float = 0.01
    kl_weight: float = 1.0
    fisher: str = "true"
    moments_every: int = 1
    update_every: int = 10
    clip: float | None = 1e-3
    adam_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("learning_rate", "kl_weight", "adam_learning_rate", "clip"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        for name in ("momentum", "decay"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ArgumentError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        if not 0.0 <= self.damping < float("inf"):
            raise ArgumentError(f"damping must be finite and not negative, got {self.damping}")
        if self.fisher not in _FISHER:
            raise ArgumentError(f"fisher must be one of {', '.join(_FISHER)}, got {self.fisher!r}")
        for name in ("moments_every", "update_every"):
            whole_number(name, getattr(self, name))

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "NoisyKFACRun":
        """Start on a model with at least one matrix-variate Gaussian layer."""
        return NoisyKFACRun(self, model, likelihood, n_data)

    @classmethod
    def init_replicas(cls, settings: Sequence[Self], members: Members, compile: bool = False) -> Replicas:
        """Start on R models at once."""
        from whvi_paper.baselines.noisy_kfac.stacked import StackedKFACRun  # it needs this file

        if compile:
            raise UnsupportedError("compile is for SVI() and MAP(); the steps of noisy K-FAC are not one graph")
        return StackedKFACRun(settings, members)


class CurvedObjective(Objective):
    """The parts of the bound, and a density whose gradients measure curvature."""

    def __init__(self, settings: NoisyKFAC, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__(model, likelihood)
        self.settings = settings
        curved = set(gaussian_layers(model).values())
        others = [layer for layer in bayesian_layers(model) if layer not in curved]
        self.others = (nn.ModuleList(others),)  # in a tuple: they are parts of the model, and of nothing else

    def forward(
        self, x: Inputs, y: Tensor, n_data: int | Tensor, record: LayerCalls, curved: bool
    ) -> tuple[Tensor, ...]:
        """What ``Evaluate`` gives."""
        log_likelihood = expected_log_likelihood(self.model, self.likelihood, x, y, n_data)
        if not curved:
            return log_likelihood, kl(*self.others)
        f = wide(record.result[-1])
        targets = self.likelihood.sample(f.detach()) if self.settings.fisher == "true" else y
        density = self.likelihood.log_prob(f, targets).sum()
        return log_likelihood, kl(*self.others), density


class NoisyKFACRun(Run):
    """A run of noisy K-FAC. A, S and the covariances are buffers of the layers; the rest of the state is here."""

    def __init__(self, settings: NoisyKFAC, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        self.model, self.likelihood, self.n_data = model, likelihood, n_data
        self.objective = CurvedObjective(settings, model, likelihood)
        count, rate = (torch.tensor(value, dtype=torch.float64) for value in (n_data, settings.learning_rate))
        layers = {
            name: Curvature(
                layer, layer.mean, {key: getattr(layer, key) for key in BUFFERS}, settings.kl_weight / count, name
            )
            for name, layer in gaussian_layers(model).items()
        }
        means = {id(each.mean) for each in layers.values()}
        others = [p for p in trainable(model, likelihood) if id(p) not in means]
        self.steps = NaturalSteps(settings, layers, others, list(likelihood.parameters()), count, rate)

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step."""

        def evaluate(record: LayerCalls, curved: bool) -> tuple[Tensor, ...]:
            parts: tuple[Tensor, ...] = self.objective(x, y, self.n_data, record, curved)
            return parts

        return self.steps.take(self.model, evaluate, len(y), step, step < self.likelihood.frozen_steps)

    def tensors(self) -> dict[str, Tensor]:
        """Momentum and inverses of each layer, and the state of Adam."""
        return self.steps.tensors()

    def numbers(self) -> dict[str, Any]:
        """Of Adam."""
        return self.steps.numbers()

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the state of ``tensors`` and ``numbers``."""
        self.steps.restore(tensors, numbers)
