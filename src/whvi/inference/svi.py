"""Stochastic variational inference: any torch optimiser on the evidence lower bound. And its plain sibling, MAP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from whvi.arguments import positive_number, whole_number
from whvi.errors import ArgumentError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.elbo import Elbo, expected_log_likelihood
from whvi.inference.optimiser_state import optimiser_numbers, optimiser_tensors, restore_optimiser
from whvi.inference.schedules import PowerDecay, Schedule, at
from whvi.likelihoods import Likelihood
from whvi.nn import kl
from whvi.nn.model import bayesian_layers

if TYPE_CHECKING:  # it needs this file
    from whvi.inference.replicas import StackedRun

MakeOptimiser = Callable[..., Optimizer]


@dataclass(frozen=True)
class SVI(Algorithm):
    """Maximise N / M * log-likelihood - beta * KL by a torch optimiser.

    Args:
        learning_rate: at the first step.
        schedule: factor of it at each step; the paper's by default.
        beta: weight of the KL, or a schedule of it.
        samples: draws for each row and step.
        clip: largest norm of the gradient, or None.
        precision: "full", or "bf16" for autocast; parameters and likelihood stay in full precision.
        optimiser: called with parameters and ``lr``, such as torch.optim.SGD.
    """

    replica_settings: ClassVar[tuple[str, ...]] = ("learning_rate", "schedule")

    learning_rate: float = 1e-3
    schedule: float | Schedule = PowerDecay()  # noqa: RUF009 (it is frozen)
    beta: float | Schedule = 1.0
    samples: int = 1
    clip: float | None = None
    precision: str = "full"
    optimiser: MakeOptimiser = Adam

    def __post_init__(self) -> None:
        positive_number("learning_rate", self.learning_rate)
        whole_number("samples", self.samples)
        if self.clip is not None:
            positive_number("clip", self.clip)
        for name, value in (("schedule", self.schedule), ("beta", self.beta)):
            if not callable(value) and not (isinstance(value, int | float) and 0.0 <= value < float("inf")):
                raise ArgumentError(
                    f"{name} must be a finite number that is not negative, or a schedule, got {value!r}"
                )
        if self.precision not in ("full", "bf16"):
            raise ArgumentError(f"precision must be 'full' or 'bf16', got {self.precision!r}")

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "SVIRun":
        """Start on a model."""
        self.check(model)
        return SVIRun(self, model, likelihood, n_data)

    @classmethod
    def init_replicas(
        cls,
        settings: Sequence[Self],
        models: Sequence[nn.Module],
        likelihoods: Sequence[Likelihood],
        counts: Tensor,
        seeds: Sequence[int],
        compile: bool = False,
    ) -> "StackedRun":
        """Start on R models at once."""
        from whvi.inference.replicas import StackedRun

        return StackedRun(settings, models, likelihoods, counts, seeds, compile)

    def check(self, model: nn.Module) -> None:
        """Raise the error that says why a model does not fit, if it does not."""

    def estimate(self, model: nn.Module, likelihood: Likelihood, x: Tensor, y: Tensor, n: int | Tensor) -> Elbo:
        """The objective's parts at a batch; beta is left to the step."""
        with self.autocast(x):
            log_likelihood = expected_log_likelihood(model, likelihood, x, y, n, self.samples)
        return Elbo(log_likelihood, self.prior_term(model, likelihood), 1.0)

    def prior_term(self, model: nn.Module, likelihood: Likelihood) -> Tensor:
        """KL of the posterior to the prior."""
        return kl(model)

    def autocast(self, x: Tensor) -> AbstractContextManager[Any]:
        """The precision of a forward pass."""
        return torch.autocast(x.device.type, torch.bfloat16) if self.precision == "bf16" else nullcontext()


@dataclass(frozen=True)
class MAP(SVI):
    """The mode of the posterior of a plain network: log-likelihood + log N(parameters; 0, prior_variance).

    Without Bayesian layers there is nothing to average over; several of them from different seeds are a deep ensemble
    (``whvi.inference.deep_ensemble``).
    """

    prior_variance: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("prior_variance", self.prior_variance)

    def check(self, model: nn.Module) -> None:
        """A plain network."""
        if bayesian_layers(model):
            raise ArgumentError("MAP is for networks without Bayesian layers; fit this one with SVI")

    def prior_term(self, model: nn.Module, likelihood: Likelihood) -> Tensor:
        """- log N(parameters; 0, prior_variance I); those of a likelihood that the model holds have no such prior."""
        others = {id(parameter) for parameter in likelihood.parameters()}
        parameters = [parameter.flatten() for parameter in model.parameters() if id(parameter) not in others]
        square = torch.cat(parameters).square().sum()
        return 0.5 * (square / self.prior_variance + sum(map(len, parameters)) * log(2 * pi * self.prior_variance))


class SVIRun(Run):
    """SVI at work on one model."""

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        self.settings, self.model, self.likelihood, self.n_data = settings, model, likelihood, n_data
        self.parameters = trainable(model, likelihood)
        self.optimiser = make_optimiser(settings, self.parameters)

    def update(self, x: Tensor, y: Tensor, step: int) -> Terms:
        """One step of the optimiser."""
        settings = self.settings
        parts = self.estimate(x, y)
        self.optimiser.zero_grad()
        (at(settings.beta, step) * parts.kl - parts.log_likelihood).backward()
        frozen = list(self.likelihood.parameters()) if step < self.likelihood.frozen_steps else []
        before = [parameter.detach().clone() for parameter in frozen]
        # Zero and not absent: so the optimiser counts its steps as it does for replicas, which share one tensor.
        for parameter in frozen:
            if parameter.grad is not None:
                parameter.grad.zero_()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, settings.clip)
        set_rates(self.optimiser, at(settings.schedule, step))
        self.optimiser.step()
        with torch.no_grad():
            for parameter, value in zip(frozen, before, strict=True):
                parameter.copy_(value)  # an optimiser with weight decay moves what has no gradient, too
        return Terms(parts.log_likelihood.detach(), parts.kl.detach())

    def estimate(self, x: Tensor, y: Tensor) -> Elbo:
        """The parts of the objective at a batch."""
        return self.settings.estimate(self.model, self.likelihood, x, y, self.n_data)

    def tensors(self) -> dict[str, Tensor]:
        """Of the optimiser."""
        return optimiser_tensors(self.optimiser)

    def numbers(self) -> dict[str, Any]:
        """Of the optimiser."""
        return optimiser_numbers(self.optimiser)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """The optimiser as it was."""
        restore_optimiser(self.optimiser, tensors, numbers)


def trainable(*modules: nn.Module) -> list[nn.Parameter]:
    """The parameters of some modules that are to be learned, each once."""
    found = {id(p): p for module in modules for p in module.parameters() if p.requires_grad}
    if not found:
        raise ArgumentError("the model has no parameters that require a gradient; there is nothing to fit")
    return list(found.values())


def make_optimiser(settings: SVI, parameters: Iterable[Any]) -> Optimizer:
    """The optimiser of some settings, for parameters or groups of them; Adam in one pass where torch has that."""
    parameters = list(parameters)
    tensors = [p for part in parameters for p in (part["params"] if isinstance(part, dict) else [part])]
    simple = all(p.device.type in ("cpu", "cuda") and p.is_contiguous() for p in tensors)
    # By default torch makes ten passes, which take nine times as long for large models.
    options = {"fused": True} if settings.optimiser is Adam and simple else {}
    optimiser = settings.optimiser(parameters, lr=settings.learning_rate, **options)
    if isinstance(optimiser, torch.optim.LBFGS):
        raise UnsupportedError("LBFGS evaluates the objective several times a step, which has noise; use another")
    return optimiser


def set_rates(optimiser: Optimizer, *factors: float) -> None:
    """The learning rate of each group: what it was at first, times the factor of the group, or one for all."""
    groups = optimiser.param_groups
    for group, factor in zip(groups, factors if len(factors) > 1 else factors * len(groups), strict=True):
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
