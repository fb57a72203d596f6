"""How the network of an estimator is made and trained."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi.inference import SVI, Callback, CosineDecay, EarlyStopping, Fit, History, Progress, fit
from whvi.inference.loop import Part
from whvi.inference.seeds import mix
from whvi.inference.svi import SVIRun
from whvi.likelihoods import Likelihood
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.predictive import predict
from whvi.sklearn.weighted import Weighted, with_weights

LEAST_APART = 10
"""Rows to calibrate by; with fewer, predictions stay as they are."""
LOOKS = 50
"""At the validation rows, at most, in a run of all steps."""
START_VARIANCE = round(exp(-2.0), 6)
"""Of the noise of standardised targets: small, so that the fit comes first."""
STEADINESS = 0.1
"""How much of the last layer's log-variances counts, where noise varies with x."""
LARGEST_CHANGE = 10.0
"""Of a log-variance with x. Beyond it densities overflow in single precision, and one such row ends a fit."""
FROZEN_STEPS = 500
"""First steps in which the noise stays as it is, or a tenth of all."""

Curves = dict[str, list[float]]
OptimizerState = tuple[dict[str, Tensor], dict[str, Any]]


def make_network(
    inputs: int, hidden: tuple[int, ...], law: Likelihood, posterior: str, seed: int, **weight: Any
) -> nn.Sequential:
    """Hidden WHVI layers with ReLU, and a mean-field layer at the end; torch's generator is left as it was.

    ``weight`` are further arguments of the hidden layers.

    >>> from whvi.likelihoods import Gaussian
    >>> make_network(4, (16,), Gaussian(1, "input"), "diagonal", 0)(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """
    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, "network"))
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs, *hidden)):
            layers += [WHVILinear(before, after, posterior=posterior, **weight), nn.ReLU()]
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


def default_steps(rows: int) -> int:
    """For so many rows.

    >>> default_steps(100), default_steps(10_000), default_steps(1_000_000)
    (3000, 15000, 20000)
    """
    return int(np.clip(1.5 * rows, 3_000, 20_000))


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


def for_likelihood(likelihood: Likelihood, data: TrainingData) -> tuple[Likelihood, tuple[Tensor, Tensor]]:
    """A likelihood that counts each row by its weight, and the data for it; plain ones where each row counts once."""
    if bool((data.weight == 1.0).all()):
        return likelihood, (data.x, data.y)
    return Weighted(likelihood), (data.x, with_weights(data.y, data.weight))


@dataclass(frozen=True)
class Training:
    """Settings of a fit."""

    steps: int
    batch_size: int
    learning_rate: float
    seed: int
    patience: int = 10
    compile: bool = False
    progress: bool = False


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
    model: nn.Module, likelihood: Likelihood, data: TrainingData, validation: TrainingData | None, settings: Training
) -> Curves:
    """Fit in place, with a rate that falls to zero; the curves of the run, one entry for each window of steps."""
    every = ceil(settings.steps / LOOKS)
    law, pair = for_likelihood(likelihood, data)
    callbacks: list[Callback] = [History(every), Progress(settings.progress)]
    if validation is not None:
        callbacks.append(WeightedStopping(validation, every, settings.patience))
    result = fit(
        model,
        law,
        pair,
        steps=settings.steps,
        algorithm=SVI(settings.learning_rate, schedule=CosineDecay(settings.steps)),
        batch_size=settings.batch_size,
        seed=settings.seed,
        callbacks=callbacks,
        compile=settings.compile,
    )
    return curves(result)


def curves(result: Fit) -> Curves:
    """Step, bound, and validation MNLL (nan where nobody looked) of each window."""
    history = result.history
    looks = dict(history.validation)
    return {
        "step": list(history.steps),
        "elbo": list(history.elbo),
        "validation_mnll": [looks.get(step, nan) for step in history.steps],
    }


@dataclass(frozen=True)
class Continued(SVI):
    """SVI that goes on from an optimizer's state."""

    state: OptimizerState | None = None

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> SVIRun:
        """Start on a model where the last run ended."""
        run = super().init(model, likelihood, n_data)
        if self.state is not None:
            run.restore(*self.state)
        return run


def go_on(
    model: nn.Module,
    likelihood: Likelihood,
    data: TrainingData,
    seen: float,
    settings: Training,
    state: OptimizerState | None,
) -> tuple[Curves, OptimizerState]:
    """One pass over more rows, at the full rate, as a part of ``seen`` rows; its curves and the optimizer's state."""
    law, pair = for_likelihood(likelihood, data.counted(seen / float(data.weight.sum())))
    steps = ceil(len(data.x) / settings.batch_size)
    result = fit(
        model,
        law,
        pair,
        steps=steps,
        algorithm=Continued(settings.learning_rate, schedule=1.0, state=state),
        batch_size=settings.batch_size,
        seed=settings.seed,
        callbacks=[History(steps), Progress(False)],
    )
    return curves(result), (result.run.tensors(), result.run.numbers())


def apart(rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Which of the rows are not to be trained on: a random share of them, at least one and not all; none for 0.

    >>> apart(4, 0.5, seed=0).sum(), apart(4, 0.01, seed=0).sum(), apart(4, 0.0, seed=0).sum()
    (np.int64(2), np.int64(1), np.int64(0))
    """
    chosen = np.zeros(rows, dtype=bool)
    if share == 0.0:
        return chosen
    if rows < 2:
        raise ArgumentError(f"early stopping needs 2 different rows, got n_samples = {rows}; use early_stopping=False")
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(mix(seed, "validation rows")))
    chosen[order[: min(rows - 1, max(1, round(share * rows)))].numpy()] = True
    return chosen
