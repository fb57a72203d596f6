"""A Bayesian layer in the place of a dense one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log, prod, sqrt
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from whvi.arguments import positive_number
from whvi.convert.start import Start, nearest
from whvi.errors import ArgumentError
from whvi.nn import WHVIConv1d, WHVIConv2d, WHVIConvTranspose1d, WHVIConvTranspose2d, WHVILinear
from whvi.nn.geometry import geometry_of
from whvi.nn.structured import StructuredLayer
from whvi.posterior import GaussianPrior, Posterior, Prior, make_posterior
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec
from whvi.structure import make_plan, parse

TWINS: dict[type[nn.Module], type[WHVIConv2d]] = {
    nn.Conv1d: WHVIConv1d,
    nn.Conv2d: WHVIConv2d,
    nn.ConvTranspose1d: WHVIConvTranspose1d,
    nn.ConvTranspose2d: WHVIConvTranspose2d,
}
"""The Bayesian twin of each kind of convolution."""
CONVOLUTIONS: tuple[type[nn.Module], ...] = tuple(TWINS)
PRETRAINED_STD = 0.05
"""Spread at the start of a layer that was fitted, as a part of the size of its means: small, to keep the function."""


@dataclass(frozen=True)
class Options:
    """How layers are made; the fields are explained at ``bayesianize``."""

    posterior: Spec = "diagonal"
    init: str = "prior"
    relative_std: float | None = None
    bias: Spec = "diagonal"
    structure: str = "SHGHS"
    scales: Spec = "optimised"
    prior_variance: float | Prior = 1.0
    share_g: bool = True
    terms: int = 1
    layout: str = "stack"
    block: int | None = None
    pad_to: str = "power_of_two"
    draws: str = "auto"

    def __post_init__(self) -> None:
        if self.init not in ("pretrained", "prior"):
            raise ArgumentError(f"init must be 'pretrained' or 'prior', got {self.init!r}")
        if self.draws not in ("auto", "example", "batch"):
            raise ArgumentError(f"draws must be 'auto', 'example' or 'batch', got {self.draws!r}")
        if self.relative_std is not None:
            positive_number("relative_std", self.relative_std)

    @property
    def g_size(self) -> float:
        """Root mean square of g where it starts: that of its prior."""
        prior = self.prior_variance if isinstance(self.prior_variance, Prior) else GaussianPrior(self.prior_variance)
        return sqrt(prior.initial_variance) if isinstance(prior, GaussianPrior) else 1.0

    @property
    def log_std(self) -> float:
        """Log of the standard deviation at the start, for a vector of size one."""
        if self.relative_std is not None:
            return log(self.relative_std)
        return log(PRETRAINED_STD) if self.init == "pretrained" else LOG_STD

    def layer(self, draws: str) -> dict[str, Any]:
        """Arguments of ``WHVILinear`` that do not depend on the dense layer."""
        names = ("posterior", "structure", "scales", "prior_variance", "share_g", "terms", "layout", "block", "pad_to")
        return {**{name: getattr(self, name) for name in names}, "draws": draws if self.draws == "auto" else self.draws}


class Made(NamedTuple):
    """A layer, and how far its mean weight is from the dense one, where it was fitted to it."""

    layer: StructuredLayer
    error: float | None


class Fitted(NamedTuple):
    """What of the start of a layer is no argument of it."""

    error: float | None = None
    permutations: Sequence[Tensor] = ()
    """Those that its vectors were fitted for; default those that it draws."""


class Maker:
    """Makes layers of one conversion, and remembers them: what shared a tensor shares its posterior.

    Args:
        options: of all layers.
        linear_draws, conv_draws: what "auto" means for linear layers and for convolutions.
    """

    def __init__(self, options: Options, linear_draws: str, conv_draws: str) -> None:
        self.options, self.linear_draws, self.conv_draws = options, linear_draws, conv_draws
        # By the tensors themselves, which hash by identity and stay alive here, so that no other takes their place.
        self._made: dict[Tensor, Made] = {}
        self._biases: dict[Tensor, Posterior] = {}

    def linear(self, weight: Tensor, bias: Tensor | None) -> Made:
        """A layer for a dense weight (out, in)."""
        outputs, inputs = weight.shape
        options, fitted = self._arguments(weight, inputs, outputs, 1, self.linear_draws)
        layer = WHVILinear(inputs, outputs, bias=self._bias(bias), **options)
        return self._remember(weight, bias, layer, fitted)

    def conv(self, module: nn.Module) -> Made:
        """A layer for a dense convolution."""
        weight, bias = module.get_parameter("weight"), cast(Tensor | None, module.bias)
        geometry = geometry_of(module)
        columns, rows = prod(weight.shape[1:]), weight.shape[0] // geometry["groups"]
        options, fitted = self._arguments(weight, columns, rows, geometry["groups"], self.conv_draws)
        layer = twin_of(module)(bias=self._bias(bias), **geometry, **options)
        return self._remember(weight, bias, layer, fitted)

    def _arguments(
        self, weight: Tensor, inputs: int, outputs: int, groups: int, draws: str
    ) -> tuple[dict[str, Any], Fitted]:
        """Arguments of a layer, with the distributions it starts from."""
        known, options = self._made.get(weight), self.options
        arguments = {**options.layer(draws), "device": weight.device, "dtype": weight.dtype}
        if known is not None:
            scales = iter(known.layer.scales)
            laws = {"posterior": lambda _: known.layer.g, "scales": lambda _: next(scales)}
            fitted = Fitted(known.error, known.layer.permutations)
            return {**arguments, **laws, "prior_variance": known.layer.prior}, fitted
        if options.init == "prior":
            start_std = options.log_std + log(options.g_size)
            return {**arguments, "posterior": lambda mean: make_posterior(options.posterior, mean, start_std)}, Fitted()
        plan = make_plan(options.layout, inputs, outputs, options.terms, block=options.block, pad_to=options.pad_to)
        start = nearest(weight, parse(options.structure), plan, groups, options.share_g, options.g_size)
        vectors = _laws(start, options, weight.dtype)
        fitted = Fitted(start.error, start.permutations)
        return {**arguments, **dict.fromkeys(("posterior", "scales"), lambda _: next(vectors))}, fitted

    def _bias(self, bias: Tensor | None) -> bool | Callable[[Tensor], Posterior]:
        """The distribution of a bias around the dense one; a frozen one stays a number."""
        if bias is None:
            return False
        known = self._biases.get(bias)
        spec: Spec = self.options.bias if bias.requires_grad else "point"
        return lambda _: known or make_posterior(spec, bias.detach().clone(), self.options.log_std, name="bias")

    def _remember(self, weight: Tensor, bias: Tensor | None, layer: StructuredLayer, fitted: Fitted) -> Made:
        layer.permute(fitted.permutations)
        if bias is not None and layer.bias is not None:
            self._biases.setdefault(bias, layer.bias.requires_grad_(bias.requires_grad))
        made = Made(layer, fitted.error)
        self._made.setdefault(weight, made)
        return made


def _laws(start: Start, options: Options, dtype: torch.dtype) -> Iterator[Posterior]:
    """The distribution of g, then those of the scales, in the order in which a layer asks for them."""
    specs = (options.posterior, *(options.scales,) * len(start.scales))
    for spec, vector in zip(specs, (start.g, *start.scales), strict=True):
        size = float(vector.square().mean().sqrt()) or 1.0
        yield make_posterior(spec, vector.to(dtype), options.log_std + log(size))


def count_parameters(module: nn.Module) -> int:
    """Numbers in the parameters of a module, each tensor once; lazy ones have none yet."""
    return sum(parameter.numel() for parameter in module.parameters() if not is_lazy(parameter))


def transposed(module: nn.Module) -> bool:
    """Whether a module is transformers' Conv1D: a linear layer whose weight is (inputs, outputs)."""
    if type(module).__name__ != "Conv1D" or not hasattr(module, "nf"):
        return False
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.ndim == 2


def twin_of(module: nn.Module) -> type[WHVIConv2d]:
    """The class of layers that take the place of a convolution."""
    return next(twin for kind, twin in TWINS.items() if isinstance(module, kind))


def size_after(module: nn.Module, options: Options) -> int:
    """Parameters of the layer that would take the place of a linear layer or convolution, without making it."""
    arguments: dict[str, Any] = {**options.layer("batch"), "prior_variance": 1.0, "device": "meta"}
    # Distributions of a user's own may be of any size; they are counted as independent Gaussians.
    arguments |= {name: "diagonal" for name in ("posterior", "scales") if not isinstance(arguments[name], str)}
    bias = module.bias is not None and (options.bias if isinstance(options.bias, str) else "diagonal")
    if not isinstance(module, nn.Linear):
        return count_parameters(twin_of(module)(bias=bias, **geometry_of(module), **arguments))
    return count_parameters(WHVILinear(module.in_features, module.out_features, bias, **arguments))
