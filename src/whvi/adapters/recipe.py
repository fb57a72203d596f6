"""What an adapter is made from, apart from the numbers that are learned, and the deltas made from it."""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import signature
from math import log
from typing import Any

import torch
from torch import Tensor, nn

from whvi.adapters.targets import Target, targets
from whvi.arguments import positive_number
from whvi.convert.layers import count_parameters
from whvi.errors import ArgumentError
from whvi.nn import WHVILinear
from whvi.nn.structured import StructuredLayer
from whvi.nn.together import named
from whvi.posterior import GaussianPrior, Posterior, Prior, make_posterior
from whvi.posterior.spec import Spec
from whvi.structure import parse

_OWN = ("self", "in_features", "out_features", "bias", "weight_variance", "device", "dtype", "draws")
"""Arguments of ``WHVILinear`` that the module decides on; others of them may be given."""
_OPTIONS = tuple(name for name in signature(WHVILinear.__init__).parameters if name not in _OWN)


@dataclass(frozen=True)
class Recipe:
    """Settings of an adapter; the fields are explained at ``adapt``.

    Law: at the start a delta has mean weight zero, its entries have standard deviation ``spread`` times the root mean
    square of the base weight, and q(g) is its prior, so that its KL is zero, for a Gaussian of independent elements.
    """

    posterior: Spec = "diagonal"
    spread: float = 0.3
    prior_variance: float | Prior = 1.0
    train_base: bool | tuple[str, ...] = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Others of ``WHVILinear``."""
    draws: Mapping[str, str] = field(default_factory=dict)
    """By the name of each adapted module, what its deltas draw for."""

    def __post_init__(self) -> None:
        positive_number("spread", self.spread)
        for name in self.options:
            if name not in _OPTIONS:
                raise ArgumentError(f"an adapter has no option {name!r}; besides its own it has {', '.join(_OPTIONS)}")

    def trains(self, name: str) -> bool:
        """Whether a parameter of the base is trained jointly."""
        chosen = self.train_base
        return chosen if isinstance(chosen, bool) else any(named(name, word) for word in chosen)

    def delta(self, name: str, module: nn.Module) -> nn.Module:
        """The delta of a module: a layer, or one for each projection of attention."""
        parts = {part: self._layer(target, module, self.draws[name]) for part, target in targets(module).items()}
        return parts[""] if "" in parts else nn.ModuleDict(parts)

    def outline(self, module: nn.Module) -> nn.Module:
        """``delta`` without memory: its names and shapes."""
        parts = {part: self._outline(target) for part, target in targets(module).items()}
        return parts[""] if "" in parts else nn.ModuleDict(parts)

    def size(self, target: Target) -> int:
        """Parameters of a layer, without making it."""
        return count_parameters(self._outline(target))

    def _outline(self, target: Target) -> StructuredLayer:
        # A posterior of a user's own may be of any size; it counts as independent. A prior would move to the device.
        posterior = self.posterior if isinstance(self.posterior, str) else "diagonal"
        prior = deepcopy(self.prior_variance)
        return target.make(posterior=posterior, prior_variance=prior, device="meta", **self.options)

    def _layer(self, target: Target, module: nn.Module, draws: str) -> StructuredLayer:
        weight = target.weight
        return target.make(
            posterior=self._centred,
            prior_variance=self.prior_variance,
            weight_variance=(self.spread * _root_mean_square(target)) ** 2,
            draws=draws,
            device=device_of(module) if weight is None else weight.device,
            dtype=torch.float64 if weight is not None and weight.dtype == torch.float64 else torch.float32,
            **self.options,
        )

    def _centred(self, mean: Tensor) -> Posterior:
        """q(g) with mean zero, and with the spread of its prior; where no scales carry the size, g itself has it."""
        prior = self.prior_variance if isinstance(self.prior_variance, Prior) else GaussianPrior(self.prior_variance)
        variance = prior.initial_variance if isinstance(prior, GaussianPrior) else 1.0
        if not parse(self.options.get("structure", "SHGHS")).scales:
            variance = float(mean.square().mean())
        made = make_posterior(self.posterior, torch.zeros_like(mean), 0.5 * log(variance))
        if bool(made.mean.detach().any()):
            raise ArgumentError(
                f"posterior {self.posterior!r} has a mean other than the zero that it started from, so the function of "
                "the base would be lost; use a Gaussian or a point"
            )
        return made


def layers_of(delta: nn.Module) -> Iterator[tuple[str, StructuredLayer]]:
    """The layers of a delta, by the name of the weight that they are added to."""
    parts: Iterable[tuple[str, nn.Module]] = delta.items() if isinstance(delta, nn.ModuleDict) else [("", delta)]
    for part, layer in parts:
        assert isinstance(layer, StructuredLayer)
        yield part, layer


def device_of(module: nn.Module) -> torch.device:
    """Where the tensors of a module are."""
    tensors = (*module.parameters(), *module.buffers())
    return tensors[0].device if tensors else torch.get_default_device()


def _root_mean_square(target: Target) -> float:
    """Of the base weight; where that is zero or cannot be read, what a fresh nn.Linear has."""
    fresh: float = (3 * target.inputs) ** -0.5
    if target.weight is None:
        return fresh
    size: float = float(target.weight.detach().float().square().mean().sqrt())
    if not size < float("inf"):
        raise ArgumentError("its weight has NaN or inf; adapt a model whose weights are finite")
    return size if size > 0.0 else fresh
