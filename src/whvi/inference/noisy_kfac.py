"""Noisy K-FAC: a matrix-variate Gaussian posterior by natural gradients, after Zhang, Sun, Duvenaud, Grosse (2018)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from whvi.errors import ArgumentError, DtypeError
from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.elbo import expected_log_likelihood
from whvi.inference.optimiser_state import optimiser_numbers, optimiser_tensors, restore_optimiser
from whvi.inference.schedules import PowerDecay, Schedule, at
from whvi.inference.svi import set_rates, trainable
from whvi.likelihoods import Likelihood
from whvi.nn import kl
from whvi.nn.matrix_gaussian import MatrixGaussian
from whvi.posterior.base import wide

_FISHER = ("true", "empirical")
_STATE = ("velocity", "input_factor", "output_factor")
_TINY = 1e-12  # second moments below this are those of a layer that no gradient reaches


@dataclass(frozen=True)
class NoisyKFAC(Algorithm):
    """Noisy natural gradients for the matrix-variate Gaussian layers of a model, Adam for all else that is learned.

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
        learning_rate: of the natural gradient, at the first step; 1 is a step of Newton without momentum.
        schedule: factor of both learning rates at each step; the paper's by default.
        momentum: of the natural gradient.
        decay: of the averages of A and S.
        damping: of the steps of the mean alone; the posterior does not know it.
        kl_weight: of the KL; 1 for the evidence bound.
        fisher: "true", gradients for targets that the likelihood draws; or "empirical", for those of the batch.
        moments_every: steps between updates of A and S.
        update_every: steps between updates of the covariance and the inverses.
        clip: bound on the square of a step's length in the norm of the curvature, or None.
        adam_learning_rate: for the parameters of other layers and of the likelihood.

    >>> from whvi.likelihoods import Gaussian
    >>> from whvi.nn import MatrixGaussianLinear
    >>> x, layer = torch.randn(50, 2), MatrixGaussianLinear(2, 1)
    >>> run = NoisyKFAC(learning_rate=0.1).init(layer, Gaussian(variance=0.01, learned=False), n_data=50)
    >>> for step in range(200):
    ...     terms = run.update(x, x @ torch.ones(2, 1), step)
    >>> torch.allclose(layer.weight(), torch.ones(2), atol=0.1)
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
            value = getattr(self, name)
            if value is not None and not 0.0 < value < float("inf"):
                raise ArgumentError(f"{name} must be positive and finite, got {value}")
        for name in ("momentum", "decay"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ArgumentError(f"{name} must be at least 0 and less than 1, got {getattr(self, name)}")
        if not 0.0 <= self.damping < float("inf"):
            raise ArgumentError(f"damping must be finite and not negative, got {self.damping}")
        if self.fisher not in _FISHER:
            raise ArgumentError(f"fisher must be one of {', '.join(_FISHER)}, got {self.fisher!r}")
        for name in ("moments_every", "update_every"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}")

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> "NoisyKFACRun":
        """Start on a model with at least one matrix-variate Gaussian layer."""
        return NoisyKFACRun(self, model, likelihood, n_data)


class NoisyKFACRun(Run):
    """Noisy K-FAC at work. A, S and the covariances are buffers of the layers; the rest of the state is here."""

    def __init__(self, settings: NoisyKFAC, model: nn.Module, likelihood: Likelihood, n_data: int) -> None:
        named = {n: m for n, m in model.named_modules() if isinstance(m, MatrixGaussian) and m.mean.requires_grad}
        if not named:
            raise ArgumentError(
                "the model has no layer for noisy K-FAC to train; build it of MatrixGaussianLinear and "
                "MatrixGaussianConv2d, or use another algorithm"
            )
        for name, layer in named.items():
            if layer.mean.dtype not in (torch.float32, torch.float64):
                raise DtypeError(f"layer {name!r} is {layer.mean.dtype}, but curvature needs float32 or float64")
        self.settings, self.model, self.likelihood, self.n_data = settings, model, likelihood, n_data
        self.layers = {name: _Layer(layer, settings.kl_weight / n_data) for name, layer in named.items()}
        means = {id(layer.mean) for layer in named.values()}
        self.others = [p for p in trainable(model, likelihood) if id(p) not in means]
        self.adam = Adam(self.others, settings.adam_learning_rate) if self.others else None

    def update(self, x: Tensor, y: Tensor, step: int) -> Terms:
        """One step: curvature under this draw of the weights, then the covariances, then all that is learned."""
        settings, layers = self.settings, list(self.layers.values())
        with _recording(self.model, layers) as record:
            log_likelihood = expected_log_likelihood(self.model, self.likelihood, x, y, self.n_data)
        if step % settings.moments_every == 0:
            # The plain average of what the layer starts with and of all batches, until the moving one has as many.
            self._update_moments(record, y, max(1.0 - settings.decay, 1.0 / (step // settings.moments_every + 2)))
        distance = kl(self.model)
        bound = (log_likelihood - settings.kl_weight * distance) / self.n_data
        parameters = [*(each.layer.mean for each in layers), *self.others]
        gradients = torch.autograd.grad(bound, parameters, allow_unused=True, materialize_grads=True)
        if step % settings.update_every == 0:
            for name, each in self.layers.items():
                each.refresh(name, settings.damping)
        factor = at(settings.schedule, step)
        self._move_means(gradients[: len(layers)], settings.learning_rate * factor)
        self._move_others(gradients[len(layers) :], factor, step)
        return Terms(log_likelihood.detach(), distance.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Momentum and inverses of each layer, and the state of Adam."""
        own = {f"{key}.{name}": getattr(each, key) for name, each in self.layers.items() for key in _STATE}
        return own if self.adam is None else {**own, **optimiser_tensors(self.adam)}

    def numbers(self) -> dict[str, Any]:
        """Of Adam."""
        return {} if self.adam is None else optimiser_numbers(self.adam)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Go on from what ``tensors`` and ``numbers`` gave."""
        for name, each in self.layers.items():
            for key in _STATE:
                getattr(each, key).copy_(tensors[f"{key}.{name}"])
        if self.adam is not None:
            restore_optimiser(self.adam, tensors, numbers)

    def _update_moments(self, record: "_Record", y: Tensor, weight: float) -> None:
        """Take the curvature of this batch into A and S with that weight."""
        f = wide(record.result[-1])
        targets = self.likelihood.sample(f.detach()) if self.settings.fisher == "true" else y
        total = self.likelihood.log_prob(f, targets).sum()
        calls = [call for call in record.calls if call[2].requires_grad]
        if not calls:
            return  # no layer is used by this pass, or not with a gradient
        gradients = torch.autograd.grad(total, [call[2] for call in calls], retain_graph=True, allow_unused=True)
        for each in self.layers.values():
            pairs = [
                (x, gradient)
                for (layer, x, _), gradient in zip(calls, gradients, strict=True)
                if layer is each.layer and gradient is not None
            ]
            if pairs:
                each.observe(pairs, len(y), weight)

    @torch.no_grad()
    def _move_means(self, gradients: Sequence[Tensor], rate: float) -> None:
        layers, clip = self.layers.values(), self.settings.clip
        steps = [each.natural(gradient) for each, gradient in zip(layers, gradients, strict=True)]
        if clip is not None:
            products = [(g * s).sum() for g, s in zip(gradients, steps, strict=True)]
            square = rate**2 * torch.stack(products).sum()
            shrink = (clip / square.clamp_min(_TINY)).sqrt().clamp_max(1.0)
            steps = [step * shrink for step in steps]
        for each, step in zip(layers, steps, strict=True):
            each.velocity.mul_(self.settings.momentum).add_(step)
            each.layer.mean.add_(each.velocity, alpha=rate)

    def _move_others(self, gradients: Sequence[Tensor], factor: float, step: int) -> None:
        if self.adam is None:
            return
        waiting = {id(p) for p in self.likelihood.parameters()} if step < self.likelihood.frozen_steps else set()
        for parameter, gradient in zip(self.others, gradients, strict=True):
            parameter.grad = torch.zeros_like(gradient) if id(parameter) in waiting else -gradient
        set_rates(self.adam, factor)
        self.adam.step()
        self.adam.zero_grad()


class _Layer:
    """What a run keeps of a layer, and how the curvature of the layer is used."""

    def __init__(self, layer: MatrixGaussian, scale: float) -> None:
        self.layer, self.scale = layer, scale
        self.velocity = torch.zeros_like(layer.mean, requires_grad=False)
        self.input_factor = torch.zeros_like(layer.input_root)
        self.output_factor = torch.zeros_like(layer.output_root)
        if not layer.input_moment.any():
            # Curvature that explains the spread the layer starts with. It fades as that of the data comes in, which at
            # first is that of one batch, with many directions that nothing is known of.
            for moment, root, part in (
                (layer.input_moment, layer.input_root, 1.0),
                (layer.output_moment, layer.output_root, scale),
            ):
                moment.copy_(part * torch.linalg.inv((root @ root.mT).double()))

    @torch.no_grad()
    def observe(self, pairs: list[tuple[Tensor, Tensor]], rows: int, weight: float) -> None:
        """Average inputs, and gradients of outputs, of the calls in a pass of ``rows`` rows into A and S."""
        inputs = torch.cat([self.layer.input_rows(wide(x)) for x, _ in pairs], -2)
        outputs = torch.cat([self.layer.output_rows(wide(gradient)) for _, gradient in pairs], -2)
        # A row may meet the weight at several positions: its curvature is their sum, which is put into A.
        for moment, seen, count in (
            (self.layer.input_moment, inputs, rows),
            (self.layer.output_moment, outputs, outputs.shape[-2]),
        ):
            moment.lerp_((seen.mT @ seen / count).to(moment.dtype), weight)

    @torch.no_grad()
    def refresh(self, name: str, damping: float) -> None:
        """The covariance that belongs to A and S, and the factors that ``natural`` divides by."""
        layer = self.layer
        moments = layer.input_moment.double(), layer.output_moment.double()
        if not all(moment.isfinite().all() for moment in moments):
            raise ArgumentError(
                f"the curvature of layer {name!r} is not finite: the run has diverged; lower learning_rate, or bound "
                "the steps with clip"
            )
        intrinsic = self.scale / layer.prior_variance
        for root, lower in zip((layer.input_root, layer.output_root), _damped(*moments, intrinsic), strict=True):
            unit = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
            inverse = torch.linalg.solve_triangular(lower, unit.expand_as(lower), upper=False)
            root.copy_(inverse.mT * self.scale**0.25)
        input_factor, output_factor = _damped(*moments, intrinsic + damping)
        self.input_factor.copy_(input_factor)
        self.output_factor.copy_(output_factor)

    def natural(self, gradient: Tensor) -> Tensor:
        """The gradient of the mean divided by the damped curvature, on both sides."""
        blocks = gradient.unflatten(0, (self.layer.groups, -1))
        left = torch.cholesky_solve(blocks, self.output_factor)
        return torch.cholesky_solve(left.mT, self.input_factor).mT.reshape(gradient.shape)


def _damped(inputs: Tensor, outputs: Tensor, damping: float) -> tuple[Tensor, Tensor]:
    """Cholesky factors of A + pi sqrt(damping) and S + sqrt(damping) / pi, for each group."""
    sizes = (moment.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(_TINY) for moment in (inputs, outputs))
    input_size, output_size = sizes
    ratio = (input_size / output_size).sqrt()
    lower = []
    for moment, part in ((inputs, ratio), (outputs, 1.0 / ratio)):
        unit = torch.eye(moment.shape[-1], dtype=moment.dtype, device=moment.device)
        lower.append(torch.linalg.cholesky(moment + sqrt(damping) * part[:, None, None] * unit))
    return lower[0], lower[1]


@dataclass
class _Record:
    """What a forward pass of a model does with its layers."""

    calls: list[tuple[nn.Module, Tensor, Tensor]] = field(default_factory=list)
    """Layer, input and output of each call."""
    result: list[Tensor] = field(default_factory=list)
    """Output of the model."""


@contextmanager
def _recording(model: nn.Module, layers: Sequence[_Layer]) -> Iterator[_Record]:
    """A block in which forward passes of a model are recorded."""
    record = _Record()

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor) -> Tensor:
        record.calls.append((layer, (*inputs, *named.values())[0].detach(), output))
        return output.clone()  # what follows may change it in place, and then it has no gradient of its own

    hooks = [each.layer.register_forward_hook(keep, with_kwargs=True) for each in layers]
    hooks.append(model.register_forward_hook(lambda _model, _inputs, output: record.result.append(output)))
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()
