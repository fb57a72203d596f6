"""How the network of an estimator is made and trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp, isnan, log, nan
from statistics import fmean
from typing import Any, Self

import torch
from torch import Tensor, nn

from whvi.inference import (
    SVI,
    Callback,
    CosineDecay,
    EarlyStopping,
    Fit,
    History,
    LinearWarmup,
    Members,
    Progress,
    fit,
    fit_replicas,
    member_seeds,
)
from whvi.inference.compiled import can_compile
from whvi.inference.optimizer_state import restore_optimizer
from whvi.inference.resuming import Part
from whvi.inference.seeds import mix
from whvi.inference.stacked_svi import StackedRun
from whvi.inference.svi import SVIRun
from whvi.likelihoods import Likelihood
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.nn.moments import Stage
from whvi.posterior import Posterior, make_posterior
from whvi.posterior.gaussian import LOG_STD
from whvi.predictive import predict
from whvi.predictive.pointwise import pointwise
from whvi.sklearn.defaults import default_batch_size, default_steps
from whvi.sklearn.parameters import Parameters
from whvi.sklearn.weighted import Weighted, with_weights

LOOKS = 50
"""At the validation rows, at most, in a run of all steps."""
START_VARIANCE = round(exp(-2.0), 6)
"""Of the noise of standardised targets: small, so that the fit comes first."""
COMPILED_STEPS = 2_500
"""From which on compiling pays, where it is left to the library."""
STEADINESS = 0.1
"""How much of the last layer's log-variances counts, where noise varies with x."""
LARGEST_CHANGE = 10.0
"""Of a log-variance with x. Beyond it densities overflow in single precision, and one such row ends a fit."""
WARM_UP = 0.2
"""Share of the steps over which the weight of the KL rises from 0 to 1: before, units are given up for the prior."""
NARROWER = 10.0
"""How many times narrower the posteriors of g start than those of a layer by itself."""
FROZEN_STEPS = 500
"""First steps in which the noise stays as it is, or a tenth of all."""

Member = tuple[nn.Module, Likelihood]
"""A network and the distribution of targets given its outputs."""
Curves = dict[str, list[float]]
OptimizerState = tuple[dict[str, Tensor], dict[str, Any]]


def make_network(
    inputs: int, hidden: tuple[int, ...], law: Likelihood, posterior: str, seed: int, **weight: Any
) -> nn.Sequential:
    """Hidden WHVI layers with ReLU, and a mean-field layer at the end; torch's generator is left as it was.

    ``weight`` are further arguments of the hidden layers. Posteriors start ``NARROWER`` times narrower than usual:
    a sum of terms has more noise to learn through.

    >>> from whvi.likelihoods import Gaussian
    >>> make_network(4, (16,), Gaussian(1, "input"), "diagonal", 0)(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def narrow(mean: Tensor) -> Posterior:
        return make_posterior(posterior, mean, LOG_STD - log(NARROWER))

    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, "network"))
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs, *hidden)):
            layers += [WHVILinear(before, after, posterior=narrow, **weight), nn.ReLU()]
        return nn.Sequential(*layers, MeanFieldLinear((inputs, *hidden)[-1], law.features), Steady(law))


class Steady(nn.Module):
    """Numbers beyond the targets' own, which say how noise varies with x, times a small factor.

    So noise is nearly the same everywhere until data say otherwise: the prior of its variation is that much narrower.
    """

    def __init__(self, law: Likelihood) -> None:
        super().__init__()
        self.factors: Tensor
        self.outputs, beyond = law.outputs, law.features - law.outputs
        self.register_buffer("factors", torch.tensor([1.0] * law.outputs + [STEADINESS] * beyond))

    def forward(self, f: Tensor) -> Tensor:
        """(..., features) -> the same."""
        scaled = f * self.factors
        targets, beyond = scaled[..., : self.outputs], scaled[..., self.outputs :]
        return torch.cat((targets, beyond.clamp(-LARGEST_CHANGE, LARGEST_CHANGE)), -1) if beyond.numel() else scaled

    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        """It is a function of single elements."""
        return pointwise(self, mean, variance)


@dataclass(frozen=True)
class TrainingData:
    """Standardised rows as tensors."""

    x: Tensor
    """(N, features), float32."""
    y: Tensor
    """As the likelihood takes them."""
    weight: Tensor
    """(N,)."""

    def counted(self, factor: float | Tensor) -> "TrainingData":
        """Each row as ``factor`` times as many."""
        return replace(self, weight=self.weight * factor)


def fit_members(members: Sequence[Member], data: Sequence[TrainingData], settings: "Training", **options: Any) -> Fit:
    """Fit a network, or several at once, in place, each to its own rows; these count by their weights."""
    models, likelihoods = [model for model, _ in members], [likelihood for _, likelihood in members]
    weighted = not all(bool((one.weight == 1.0).all()) for one in data)
    if weighted:
        likelihoods = [Weighted(one) for one in likelihoods]
    targets = {id(one): with_weights(one.y, one.weight) if weighted else one.y for one in data}
    pairs = [(one.x, targets[id(one)]) for one in data]  # members with the same rows share them
    options |= {"batch_size": settings.batch_size, "compile": settings.compiles(options["steps"])}
    if len(members) == 1:
        return fit(models[0], likelihoods[0], pairs[0], seed=settings.seed, **options)
    seeds = member_seeds(settings.seed, len(members))
    return fit_replicas(models, likelihoods, pairs, seeds=seeds, **options)


@dataclass(frozen=True)
class Training:
    """Settings of a fit."""

    steps: int
    batch_size: int
    learning_rate: float
    seed: int
    patience: int = 10
    warm_up: float = WARM_UP
    compile: bool | None = False
    """None for "where there is a compiler and the fit is long"."""
    progress: bool = False

    @classmethod
    def of(cls, parameters: Parameters, rows: int, seed: int) -> "Training":
        """Those of an estimator's parameters, for so many rows."""
        return cls(
            steps=parameters.max_steps or default_steps(rows),
            batch_size=parameters.batch_size or default_batch_size(rows),
            learning_rate=parameters.learning_rate,
            seed=seed,
            patience=parameters.patience,
            compile=parameters.compile,
            progress=parameters.verbose,
        )

    def compiles(self, steps: int) -> bool:
        """Whether a run of so many steps is compiled."""
        return can_compile() and steps >= COMPILED_STEPS if self.compile is None else self.compile


class WeightedStopping(EarlyStopping):
    """Early stopping on held-out rows that have weights."""

    def __init__(self, data: TrainingData, every: int, patience: int) -> None:
        super().__init__(every=every, patience=patience, validation=(data.x, data.y))
        self.data = data

    def likelihood_of(self, part: Part) -> Likelihood:
        """That of single rows, where training counts them by their weights."""
        return part.likelihood.inner if isinstance(part.likelihood, Weighted) else part.likelihood

    def value(self, part: Part) -> float:
        """Weighted mean of minus the log predictive density."""
        law, seed = self.likelihood_of(part), mix(part.seed, "validation")
        found = predict(part.model, self.data.x, self.samples, likelihood=law, seed=seed).log_prob(self.data.y)
        return -float((found * self.data.weight).sum() / self.data.weight.sum())


def train(
    members: Sequence[Member], data: Sequence[TrainingData], validation: TrainingData | None, settings: Training
) -> Curves:
    """Fit in place, each member to its own rows, with a rate that falls to zero and a weight of the KL that rises.

    Returns the curves of the run, one entry for each window of steps.
    """
    every = ceil(settings.steps / LOOKS)
    callbacks: list[Callback] = [History(every), Progress(settings.progress)]
    if validation is not None:
        callbacks.append(WeightedStopping(validation, every, settings.patience))
    kl_weight = (
        LinearWarmup(round(settings.warm_up * settings.steps)) if settings.warm_up * settings.steps >= 1 else 1.0
    )
    algorithm = SVI(settings.learning_rate, schedule=CosineDecay(settings.steps), kl_weight=kl_weight)
    return curves(fit_members(members, data, settings, steps=settings.steps, algorithm=algorithm, callbacks=callbacks))


def curves(result: Fit) -> Curves:
    """Step, bound, and validation MNLL (nan where nobody looked) of each window: means over members."""
    history = result.history
    looks = dict(history.validation)
    return {
        "step": list(history.steps),
        "elbo": [_mean(bound) for bound in history.elbo],
        "validation_mnll": [_mean(looks.get(step, nan)) for step in history.steps],
    }


def _mean(values: Any) -> float:
    """Of one for each member, without those that stopped; or of one model."""
    going = [value for value in values if not isnan(value)] if isinstance(values, list) else [values]
    return fmean(going)


@dataclass(frozen=True)
class Continued(SVI):
    """SVI that resumes from an optimizer's state."""

    state: OptimizerState | None = None

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> SVIRun:
        """Start on a model where the last run ended."""
        run = super().init(model, likelihood, n_data)
        if self.state is not None:
            run.restore(*self.state)
        return run

    @classmethod
    def init_replicas(cls, settings: Sequence[Self], members: Members, compile: bool = False) -> StackedRun:
        """Start on several models where the last run ended."""
        run, state = super().init_replicas(settings, members, compile), settings[0].state
        if state is not None:
            restore_optimizer(run.optimizer, *state)
        return run


def go_on(
    members: Sequence[Member],
    data: Sequence[TrainingData],
    seen: float,
    settings: Training,
    state: OptimizerState | None,
) -> tuple[Curves, OptimizerState]:
    """One pass over more rows, at the full rate, as a part of ``seen`` rows; its curves and the optimizer's state."""
    counted = [one.counted(seen / float(one.weight.sum())) for one in data]
    steps = ceil(len(data[0].x) / settings.batch_size)
    algorithm = Continued(settings.learning_rate, schedule=1.0, state=state)
    callbacks, settings = [History(steps), Progress(False)], replace(settings, compile=False)
    result = fit_members(members, counted, settings, steps=steps, algorithm=algorithm, callbacks=callbacks)
    tensors = {name: tensor for name, tensor in result.run.tensors().items() if name.startswith("optimiser.")}
    return curves(result), (tensors, result.run.numbers())
