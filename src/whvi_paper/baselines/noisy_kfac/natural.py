"""Steps of noisy K-FAC: curvature under a draw of the weights, then the covariances, then all that is learned."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Adam

from whvi.inference.algorithm import Terms
from whvi.inference.optimizer_state import optimizer_numbers, optimizer_tensors, restore_optimizer
from whvi.inference.schedules import at
from whvi.inference.svi import set_rates
from whvi.posterior.base import wide
from whvi_paper.baselines.noisy_kfac.calls import LayerCalls, recording
from whvi_paper.baselines.noisy_kfac.curvature import STATE, TINY, Curvature

if TYPE_CHECKING:
    from whvi_paper.baselines.noisy_kfac.algorithm import NoisyKFAC

Evaluate = Callable[[LayerCalls, bool], tuple[Tensor, ...]]
"""Log-likelihood, KL of other layers and, where curvature is asked for, the log density whose gradients measure it."""


class NaturalSteps:
    """The steps of one model, or of R alike at once: then numbers are (R,), and tensors have that axis in front.

    Args:
        settings: of the algorithm.
        layers: those with curvature, by name.
        others: all that is learned besides their means.
        noises: those of the others that belong to the likelihood.
        n_data: rows of the data, float64: () or (R,).
        rates: learning rates of natural gradients, as n_data.
    """

    def __init__(
        self,
        settings: "NoisyKFAC",
        layers: Mapping[str, Curvature],
        others: Sequence[Tensor],
        noises: Sequence[Tensor],
        n_data: Tensor,
        rates: Tensor,
    ) -> None:
        self.settings, self.layers, self.others = settings, layers, list(others)
        device = next(iter(layers.values())).mean.device
        self.noises, self.n_data, self.rates = {id(noise) for noise in noises}, n_data.to(device), rates.to(device)
        self.adam = Adam(self.others, settings.adam_learning_rate) if self.others else None

    def take(self, model: nn.Module, evaluate: Evaluate, rows: int, step: int, frozen: bool) -> Terms:
        """One step.

        Args:
            model: whose forward passes ``evaluate`` makes.
            evaluate: the objective.
            rows: of the batch.
            step: its number.
            frozen: whether the likelihood stays as it is.
        """
        settings, layers = self.settings, list(self.layers.values())
        curved = step % settings.moments_every == 0
        with recording(model, [each.layer for each in layers] if curved else []) as record:
            log_likelihood, distance, *density = evaluate(record, curved)
        for each in layers:
            distance = distance + each.kl()
        if curved:
            # The plain average of what the layer starts with and of all batches, until the moving one has as many.
            weight = max(1.0 - settings.decay, 1.0 / (step // settings.moments_every + 2))
            self._observe(record, density[0], rows, weight)
        bound = (log_likelihood - settings.kl_weight * distance) / self.n_data
        parameters = [*(each.mean for each in layers), *self.others]
        gradients = torch.autograd.grad(bound.sum(), parameters, allow_unused=True, materialize_grads=True)
        if step % settings.update_every == 0:
            for each in layers:
                each.refresh(settings.damping)
        factor = at(settings.schedule, step)
        _move(layers, gradients[: len(layers)], self.rates * factor, settings.momentum, settings.clip)
        self._move_others(gradients[len(layers) :], factor, frozen)
        return Terms(log_likelihood.detach(), distance.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Momentum and inverses of each layer, and the state of Adam."""
        own = {f"{key}.{name}": getattr(each, key) for name, each in self.layers.items() for key in STATE}
        return own if self.adam is None else {**own, **optimizer_tensors(self.adam)}

    def numbers(self) -> dict[str, Any]:
        """Of Adam."""
        return {} if self.adam is None else optimizer_numbers(self.adam)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the state of ``tensors`` and ``numbers``."""
        for name, each in self.layers.items():
            for key in STATE:
                getattr(each, key).copy_(_kept(tensors, key, name))
            each.spread()
        if self.adam is not None:
            restore_optimizer(self.adam, tensors, numbers)

    def _observe(self, record: LayerCalls, density: Tensor, rows: int, weight: float) -> None:
        """Take the curvature of this batch into A and S with that weight."""
        calls = [call for call in record.calls if call[2].requires_grad]
        if not calls:
            return  # no layer is used by this pass, or not with a gradient
        outputs = [call[2] for call in calls]
        gradients = torch.autograd.grad(density.sum(), outputs, retain_graph=True, allow_unused=True)
        for each in self.layers.values():
            pairs = [
                (wide(x), wide(gradient))
                for (layer, x, _), gradient in zip(calls, gradients, strict=True)
                if layer is each.layer and gradient is not None
            ]
            if pairs:
                each.observe(pairs, rows, weight)

    def _move_others(self, gradients: Sequence[Tensor], factor: float, frozen: bool) -> None:
        if self.adam is None:
            return
        for parameter, gradient in zip(self.others, gradients, strict=True):
            parameter.grad = torch.zeros_like(gradient) if frozen and id(parameter) in self.noises else -gradient
        set_rates(self.adam, factor)
        self.adam.step()
        self.adam.zero_grad()


def _kept(tensors: Mapping[str, Tensor], key: str, name: str) -> Tensor:
    """What a checkpoint has of a layer. In place of an inverse older ones have the lower Cholesky factor."""
    older = f"{key.removesuffix('_inverse')}_factor.{name}"
    return torch.cholesky_inverse(tensors[older].double()) if older in tensors else tensors[f"{key}.{name}"]


@torch.no_grad()
def _move(
    layers: Sequence[Curvature], gradients: Sequence[Tensor], rate: Tensor, momentum: float, clip: float | None
) -> None:
    """Move the means along their natural gradients. A step is as long as the curvature of all layers together says."""
    steps = [layer.natural(gradient) for layer, gradient in zip(layers, gradients, strict=True)]
    if clip is not None:
        products = [(g * s).sum((-2, -1)) for g, s in zip(gradients, steps, strict=True)]
        square = rate.square() * torch.stack(products).sum(0)
        shrink = (clip / square.clamp_min(TINY)).sqrt().clamp_max(1.0)[..., None, None]
        steps = [step * shrink.to(step.dtype) for step in steps]
    for layer, step in zip(layers, steps, strict=True):
        layer.velocity.mul_(momentum).add_(step)
        layer.mean.add_(layer.velocity * rate[..., None, None].to(step.dtype))
