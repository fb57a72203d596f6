"""Stochastic variational inference: any torch optimizer on the evidence lower bound."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from whvi import rows as of
from whvi.annotations import checked
from whvi.arguments import positive_number, whole_number
from whvi.errors import ArgumentError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Members, Run, Terms
from whvi.inference.elbo import expected_log_likelihood
from whvi.inference.optimizer_state import optimizer_numbers, optimizer_tensors, restore_optimizer
from whvi.inference.renamed import renamed
from whvi.inference.schedules import PowerDecay, Schedule, at
from whvi.inference.stacked import Objective
from whvi.likelihoods import Likelihood
from whvi.nn import kl
from whvi.rows import Inputs

if TYPE_CHECKING:  # they need this file
    from whvi.inference.flat_svi import FlatRun
    from whvi.inference.stacked_svi import StackedRun

MakeOptimizer = Callable[..., Optimizer]


class Bound(Objective):
    """The two terms of the bound at a batch, as the output of a module, so that its tensors can be replaced."""

    def __init__(self, settings: "SVI", model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__(model, likelihood)
        self.settings = settings

    def forward(self, x: Inputs, y: Tensor, n_data: float | Tensor) -> Terms:
        """For a batch of a dataset of ``n_data`` rows; the step applies the KL weight."""
        with torch.autocast(of.device(x).type, torch.bfloat16, enabled=self.settings.precision == "bf16"):
            log_likelihood = expected_log_likelihood(self.model, self.likelihood, x, y, n_data, self.settings.samples)
        return Terms(log_likelihood, self.prior_term())

    def prior_term(self) -> Tensor:
        """KL of the posterior to the prior."""
        return kl(self.model)


@renamed(beta="kl_weight", optimiser="optimizer")
@checked
@dataclass(frozen=True)
class SVI(Algorithm):
    """Maximise N / M * log-likelihood - kl_weight * KL by a torch optimizer.

    Args:
        learning_rate: the initial one.
        schedule: its factor at each step; default the paper's.
        kl_weight: weight of the KL, or a schedule of it.
        samples: draws for each row and step.
        clip: largest norm of the gradient, or None.
        precision: "full", or "bf16" for autocast; parameters and likelihood stay in full precision.
        optimizer: called with parameters and ``lr``, such as torch.optim.SGD.
    """

    replica_settings: ClassVar[tuple[str, ...]] = ("learning_rate", "schedule")
    bound: ClassVar[type[Bound]] = Bound
    """The objective of the steps."""

    learning_rate: float = 1e-3
    schedule: float | Schedule = PowerDecay()  # noqa: RUF009 (it is frozen)
    kl_weight: float | Schedule = 1.0
    samples: int = 1
    clip: float | None = None
    precision: str = "full"
    optimizer: MakeOptimizer = Adam

    def __post_init__(self) -> None:
        positive_number("learning_rate", self.learning_rate)
        whole_number("samples", self.samples)
        if self.clip is not None:
            positive_number("clip", self.clip)
        for name, value in (("schedule", self.schedule), ("kl_weight", self.kl_weight)):
            if not callable(value) and not (isinstance(value, int | float) and 0.0 <= value < float("inf")):
                raise ArgumentError(
                    f"{name} must be a finite number that is not negative, or a schedule, got {value!r}"
                )
        if self.precision not in ("full", "bf16"):
            raise ArgumentError(f"precision must be 'full' or 'bf16', got {self.precision!r}")

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "SVIRun":
        """Start on a model."""
        return SVIRun(self, model, likelihood, n_data)

    def init_compiled(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "FlatRun":
        """Start on a model with compiled steps."""
        from whvi.inference.flat_svi import FlatRun

        return FlatRun(self, model, likelihood, n_data)

    @classmethod
    def init_replicas(cls, settings: Sequence[Self], members: Members, compile: bool = False) -> "StackedRun":
        """Start on R models at once."""
        from whvi.inference.stacked_svi import StackedRun

        return StackedRun(settings, members, compile)


class SVIRun(Run):
    """A run of SVI on one model. Its state is that of the optimizer, besides the model and the likelihood."""

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        self.settings, self.model, self.likelihood, self.n_data = settings, model, likelihood, n_data
        self.bound: nn.Module = settings.bound(settings, model, likelihood)
        self.parameters = trainable(model, likelihood)
        self.optimizer = make_optimizer(settings, self.parameters)

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step of the optimizer."""
        settings = self.settings
        log_likelihood, kl = self.evaluate(x, y)
        self.optimizer.zero_grad()
        (at(settings.kl_weight, step) * kl - log_likelihood).backward()
        frozen = list(self.likelihood.parameters()) if step < self.likelihood.frozen_steps else []
        before = [parameter.detach().clone() for parameter in frozen]
        # Zero and not absent: so the optimizer counts its steps as it does for replicas, which share one tensor.
        for parameter in frozen:
            if parameter.grad is not None:
                parameter.grad.zero_()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, settings.clip)
        set_rates(self.optimizer, at(settings.schedule, step))
        self.optimizer.step()
        with torch.no_grad():
            for parameter, value in zip(frozen, before, strict=True):
                parameter.copy_(value)  # an optimizer with weight decay moves what has no gradient, too
        return Terms(log_likelihood.detach(), kl.detach())

    def evaluate(self, x: Inputs, y: Tensor) -> Terms:
        """The terms of the bound at a batch."""
        terms: Terms = self.bound(x, y, self.n_data)
        return terms

    def tensors(self) -> dict[str, Tensor]:
        """Of the optimizer."""
        return optimizer_tensors(self.optimizer)

    def numbers(self) -> dict[str, Any]:
        """Of the optimizer."""
        return optimizer_numbers(self.optimizer)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """The optimizer as it was."""
        restore_optimizer(self.optimizer, tensors, numbers)


def trainable(*modules: nn.Module) -> list[nn.Parameter]:
    """The parameters of some modules that require gradients, each once."""
    found = {id(p): p for module in modules for p in module.parameters() if p.requires_grad}
    if not found:
        raise ArgumentError("the model has no parameters that require a gradient; there is nothing to fit")
    return list(found.values())


def make_optimizer(settings: SVI, parameters: Iterable[Any]) -> Optimizer:
    """The optimizer of some settings, for parameters or groups of them; fused Adam if torch has it."""
    parameters = list(parameters)
    tensors = [p for part in parameters for p in (part["params"] if isinstance(part, dict) else [part])]
    simple = all(p.device.type in ("cpu", "cuda") and p.is_contiguous() for p in tensors)
    # By default torch makes ten passes, which take nine times as long for large models.
    options = {"fused": True} if settings.optimizer is Adam and simple else {}
    optimizer = settings.optimizer(parameters, lr=settings.learning_rate, **options)
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UnsupportedError("LBFGS evaluates the noisy objective several times per step; use another optimizer")
    return optimizer


def set_rates(optimizer: Optimizer, *factors: float) -> None:
    """Set the learning rate of each group: its initial value times the factor of the group, or one for all."""
    groups = optimizer.param_groups
    for group, factor in zip(groups, factors if len(factors) > 1 else factors * len(groups), strict=True):
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
