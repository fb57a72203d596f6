"""Stochastic gradient Hamiltonian Monte Carlo with adapted scales: samples of the posterior of a plain network.

Chen, Fox, Guestrin, "Stochastic Gradient Hamiltonian Monte Carlo" (ICML 2014), with the adaptation of Springenberg,
Klein, Falkner, Hutter, "Bayesian Optimization with Robust Bayesian Neural Networks" (NeurIPS 2016). All chains move at
once, as rows of one matrix (chains, parameters).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite, pi
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.stacked import LIKELIHOOD, MODEL, Stacked
from whvi.likelihoods import Likelihood
from whvi.nn.model import bayesian_layers
from whvi.nn.parts import BATCH_NORMS
from whvi.ops import draw_seed, normal
from whvi.rows import Inputs


@checked
@dataclass(frozen=True)
class SGHMC(Algorithm):
    """Settings of the sampler. Its target is exp(-U / temperature), U = -log p(y | x, theta) - log p(theta).

    With velocities v and a mass of the root of the mean square gradient V, a step is

        v <- (1 - friction) v - step_size^2 V^-1/2 grad U + N(0, 2 friction temperature step_size^2 V^-1/2 - B)
        theta <- theta + v

    where B = gradient_noise * step_size^4 is the noise that minibatches add. During burn-in V is an
    average over a window of steps whose length adapts; it then stays, and each chain has its own. The mass is never
    less than that of the prior, which limits the steps of a parameter without data.

    Law: on a Gaussian target, where V^-1/2 grad^2 U has eigenvalues e, exact gradients give the exact mean, and
    1 / (1 - step_size^2 e / (4 - 2 friction)) times the exact variance in their directions.

    Args:
        step_size: epsilon of the paper.
        friction: fraction of the velocity that a step removes.
        burn_in: first steps, which adapt V and are discarded.
        thin: steps between kept samples.
        keep: number of samples to keep of each chain, the latest.
        chains: the number of chains. The first starts at the parameters of the model; the others at the result of
            ``reset_parameters`` of its modules, or, if there is none, at a draw of the prior around them.
        prior_variance: of the weights: theta ~ N(0, prior_variance). Or by name of parameter; those without have 1.
        temperature: 1 is the posterior.
        gradient_noise: fraction of V that counts as noise of the minibatch: 1 in the paper. A larger fraction than the
            true one makes the samples too narrow, a smaller one too wide, and neither helps if step_size^2 V^1/2 comes
            near 2 friction: then this noise dominates. A batch of all rows has none, whatever the setting.

    A learned parameter of the likelihood is sampled too, with the prior N(its initial value, 1).

    >>> from whvi.likelihoods import Gaussian
    >>> run = SGHMC(burn_in=10, thin=1, chains=2).init(nn.Linear(3, 1), Gaussian(learned=False), n_data=5)
    >>> for step in range(30):
    ...     terms = run.update(torch.randn(5, 3), torch.randn(5, 1), step)
    >>> run.samples["weight"].shape  # chains, samples, parameter
    torch.Size([2, 20, 1, 3])
    """

    replacement: ClassVar[bool] = True  # what is known of the noise of a batch holds for independent rows

    step_size: float = 0.01
    friction: float = 0.05
    burn_in: int = 3000
    thin: int = 50
    keep: int = 100
    chains: int = 4
    prior_variance: float | Mapping[str, float] = 1.0
    temperature: float = 1.0
    gradient_noise: float = 1.0

    def __post_init__(self) -> None:
        """Raise an error if a setting is wrong."""
        for field in fields(self):
            if field.name != "prior_variance":
                _check_number(field.name, getattr(self, field.name), whole=field.type is int)
        for name in ("step_size", "temperature"):
            _check_range(name, getattr(self, name), getattr(self, name) > 0.0, "positive")
        for name in ("thin", "keep", "chains"):
            _check_range(name, getattr(self, name), getattr(self, name) >= 1, "1 or more")
        _check_range("burn_in", self.burn_in, self.burn_in >= 0, "0 or more")
        _check_range("friction", self.friction, 0.0 < self.friction < 1.0, "between 0 and 1")
        _check_range("gradient_noise", self.gradient_noise, 0.0 <= self.gradient_noise <= 1.0, "from 0 to 1")
        variance = self.prior_variance
        for name, value in variance.items() if isinstance(variance, Mapping) else [("the weights", variance)]:
            _check_number(f"prior_variance of {name}", value, whole=False)
            _check_range(f"prior_variance of {name}", value, value > 0.0, "positive")

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "Chains":
        """Start all chains, for a dataset of ``n_data`` rows. ``model`` is a network without Bayesian layers."""
        if bayesian_layers(model):
            raise UnsupportedError(
                "SGHMC samples the weights of a plain network, but this model has Bayesian layers; build it from "
                "torch.nn layers"
            )
        if any(isinstance(module, BATCH_NORMS) for module in model.modules()):
            raise UnsupportedError(
                "SGHMC needs a likelihood that is a product over rows, but BatchNorm joins the rows of a batch; use "
                "LayerNorm or GroupNorm"
            )
        for parameter in (*model.parameters(), *likelihood.parameters()):
            if parameter.dtype not in (torch.float32, torch.float64):
                raise DtypeError(f"chains need float32 or float64, but a parameter is {parameter.dtype}; use .float()")
        _check_number("n_data", n_data, whole=True)
        _check_range("n_data", n_data, n_data >= 1, "1 or more")
        return Chains(self, model, likelihood, n_data)

    def check_call(self, steps: int, early_stopping: bool) -> None:
        """There must be enough steps for a sample, and no early stopping."""
        if early_stopping:
            raise UnsupportedError("chains have no best step: SGHMC does not support early stopping")
        if steps < self.burn_in + self.thin:
            raise ArgumentError(
                f"with burn_in = {self.burn_in} and thin = {self.thin}, {steps} steps leave no sample; take more, or a "
                "shorter burn-in"
            )

    def variance_of(self, names: list[str]) -> list[float]:
        """The prior variance of each parameter of the model, by name."""
        if not isinstance(self.prior_variance, Mapping):
            return [self.prior_variance] * len(names)
        unknown = sorted(set(self.prior_variance) - set(names))
        if unknown:
            raise ArgumentError(
                f"prior_variance names {', '.join(unknown)}, but the model has the parameters {', '.join(names)}"
            )
        return [self.prior_variance.get(name, 1.0) for name in names]


class Chains(Run):
    """A run of SGHMC chains. The model and the likelihood have the values of the first chain at every step."""

    def __init__(self, settings: SGHMC, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        self.settings, self.model, self.likelihood, self.n_data = settings, model, likelihood, n_data
        self._stacked = Stacked(model, likelihood)
        learned = len(self._stacked.sizes) - len(self._stacked.names)
        self._variance = self._stacked.spread(settings.variance_of(self._stacked.names) + [1.0] * learned)
        start = self._stacked.flat()
        others = [self._stacked.elsewhere(self._variance.sqrt()) for _ in range(settings.chains - 1)]
        self._position = torch.stack([start, *others])
        self._velocity = torch.zeros_like(self._position)
        self._square = (1.0 / self._variance).repeat(settings.chains, 1)  # V
        self._gradient = torch.zeros_like(self._position)  # its mean over the window
        self._window = torch.ones_like(self._position)
        self._centre = start.clone()  # of the prior
        self._centre[: self._stacked.model_size] = 0.0
        self._kept: deque[Tensor] = deque(maxlen=settings.keep)

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step of all chains with one batch; terms are means over chains, before the step."""
        if not 1 <= len(y) <= self.n_data:
            raise ArgumentError(f"the batch has {len(y)} rows, but must have from 1 to n_data = {self.n_data}")
        log_likelihood, gradient = self._stacked.log_likelihood(self._position, x, y, self.n_data)
        if not log_likelihood.isfinite().all():
            raise ArgumentError(
                f"the log-likelihood of {int((~log_likelihood.isfinite()).sum())} of {self.settings.chains} chains is "
                f"not finite at step {step}; make step_size ({self.settings.step_size}) smaller"
            )
        offset = self._position - self._centre
        energy = 0.5 * (offset.square() / self._variance + (2.0 * pi * self._variance).log()).sum(-1)
        uphill = offset / self._variance - gradient
        # While the likelihood is frozen only the first columns, those of the model, move.
        moving = slice(None) if step >= self.likelihood.frozen_steps else slice(self._stacked.model_size)
        if step < self.settings.burn_in:
            self._adapt(uphill, moving)
        self._move(uphill, moving, self.settings.gradient_noise if len(y) < self.n_data else 0.0)
        after = step - self.settings.burn_in + 1
        if after > 0 and after % self.settings.thin == 0:
            self._kept.append(self._position.clone())
        self._stacked.write(self._position[0])
        return Terms(log_likelihood.mean(), energy.mean())

    @property
    def samples(self) -> dict[str, Tensor]:
        """Kept samples of the parameters of the model by name: (chains, samples, *shape)."""
        return self._stacked.split(self._all_kept().movedim(0, 1), MODEL)

    @property
    def likelihood_samples(self) -> dict[str, Tensor]:
        """Kept samples of the learned parameters of the likelihood, as ``samples``; may be empty."""
        return self._stacked.split(self._all_kept().movedim(0, 1), LIKELIHOOD)

    def posterior(self) -> Ensemble:
        """``ensemble()``: an error without samples, because a chain in burn-in is not a posterior."""
        return self.ensemble()

    def ensemble(self) -> Ensemble:
        """All kept samples as one ensemble of chains * samples networks, chain after chain, for ``whvi.predict``."""
        if not self._kept:
            first = self.settings.burn_in + self.settings.thin
            raise ArgumentError(
                f"there are no samples yet: the first is stored after burn_in + thin = {first} steps; take more steps"
            )
        size = len(self._kept) * self.settings.chains
        states, likelihood_states = (
            {name: parameter.detach().expand(size, *parameter.shape) for name, parameter in module.named_parameters()}
            | {name: value.flatten(0, 1) for name, value in samples.items()}
            for module, samples in ((self.model, self.samples), (self.likelihood, self.likelihood_samples))
        )
        return Ensemble.from_states(self.model, states, self.likelihood, likelihood_states)

    def tensors(self) -> dict[str, Tensor]:
        """Positions of the chains, their adapted scales, and their samples (n, chains, parameters)."""
        return {name: value.clone() for name, value in self._state().items()} | {"kept": self._all_kept()}

    def numbers(self) -> dict[str, Any]:
        """Empty: the whole state is in the tensors."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the result of ``tensors``; the model and the likelihood follow the first chain."""
        state = self._state()
        missing = {"kept", *state} - set(tensors)
        if missing:
            raise ArgumentError(f"tensors lack {', '.join(sorted(missing))}; pass all tensors of the run of SGHMC")
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        shapes["kept"] = (len(tensors["kept"]), *self._position.shape)
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                raise ShapeError(
                    f"{name} has shape {tuple(tensors[name].shape)}, but these chains of this model need {shape}; "
                    "restore with the settings and the model that were saved"
                )
        for name, value in state.items():
            value.copy_(tensors[name])
        self._kept = deque(tensors["kept"].to(self._position).unbind(), maxlen=self.settings.keep)
        self._stacked.write(self._position[0])

    def _adapt(self, uphill: Tensor, moving: slice) -> None:
        """The paper's averages, over a window of steps that grows, but shrinks if the gradient has a direction.

        The rate is 1 / (window + 1), as in the authors' code: with 1 / window a window of one step would never grow.
        """
        mean, square, window = (value[:, moving] for value in (self._gradient, self._square, self._window))
        rate = 1.0 / (window + 1.0)
        mean += rate * (uphill[:, moving] - mean)
        square += rate * (uphill[:, moving].square() - square)
        window += 1.0 - window * mean.square() / square

    def _move(self, uphill: Tensor, moving: slice, gradient_noise: float) -> None:
        """The step in the docstring of ``SGHMC``."""
        settings = self.settings
        square, velocity = self._square[:, moving], self._velocity[:, moving]
        rate = settings.step_size**2 * torch.maximum(square, 1.0 / self._variance[moving]).rsqrt()
        variance = 2.0 * settings.friction * settings.temperature * rate - gradient_noise * rate.square() * square
        noise = normal(draw_seed(device=rate.device), 0, rate.shape, dtype=rate.dtype)
        velocity *= 1.0 - settings.friction
        velocity += variance.clamp_min(0.0).sqrt() * noise - rate * uphill[:, moving]
        self._position[:, moving] += velocity

    def _all_kept(self) -> Tensor:
        """(samples, chains, parameters)."""
        return torch.stack(list(self._kept)) if self._kept else self._position.new_empty(0, *self._position.shape)

    def _state(self) -> dict[str, Tensor]:
        return {
            "position": self._position,
            "velocity": self._velocity,
            "gradient": self._gradient,
            "square": self._square,
            "window": self._window,
            "prior_centre": self._centre,
        }


def _check_number(name: str, value: object, *, whole: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise InputTypeError(f"{name} must be {'an int' if whole else 'a number'}, got {type(value).__name__}")


def _check_range(name: str, value: float, fits: bool, wanted: str) -> None:
    if not fits or not isfinite(value):
        raise ArgumentError(f"{name} must be {wanted}, got {value}")
