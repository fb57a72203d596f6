"""Means and variances through a network: prediction without samples."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError, ShapeError, UnsupportedError
from whvi.nn.base import BayesianLayer
from whvi.nn.model import bayesian_layers
from whvi.nn.moments import Stage, known, nothing_added, rows_only
from whvi.nn.ties import sharing
from whvi.ops.precision import wide
from whvi.ops.torch_private import hooked, runs_as
from whvi.predictive.pointwise import pointwise, relu

Rule = Callable[[Any, Tensor, Tensor | None], Stage]
"""What a module makes of a mean and a variance: called with the module and both."""
AT_ONCE = 16
"""Outputs whose variance is found at once."""


@checked
def register_moments(kind: type[nn.Module], rule: Rule = pointwise) -> None:
    """Register how means and variances propagate through a type of module.

    Args:
        kind: its class; also used for subclasses with the same ``forward``.
        rule: called with the module, the mean and the variance (or None) of its independent inputs; it returns a
            ``Stage``. ``pointwise``, the default, is for elementwise functions.

    Your own module may also have a method ``moments(mean, variance)`` that returns a ``Stage``.

    >>> class Cosine(nn.Module):
    ...     def forward(self, x):
    ...         return torch.cos(x)
    >>> register_moments(Cosine)
    >>> mean, variance = moments_of(nn.Sequential(nn.Linear(2, 3), Cosine()), torch.zeros(5, 2))
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise InputTypeError(f"kind must be a class of torch.nn.Module, got {kind!r}")
    if not callable(rule):
        raise InputTypeError(f"rule must be a function of module, mean and variance, got {type(rule).__name__}")
    _rules[kind] = rule


@checked
def moments_of(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the output of ``model`` at x, without sampling: (N, ...) -> (N, F), (N, F).

    In the forward pass each layer computes the mean and the variance of its outputs, exactly for independent inputs.
    Units of a layer are not independent, because they share weights and inputs. So the variance of the network's
    outputs is computed in a backward pass: each output is, to first order, a linear function of every layer's noise,
    and the contribution of a layer's noise is summed over all units together.

    Law: exact for one Bayesian layer that is last or followed by linear modules.

    >>> from whvi.nn import WHVILinear
    >>> model = nn.Sequential(WHVILinear(4, 16), nn.ReLU(), WHVILinear(16, 1))
    >>> mean, variance = moments_of(model, torch.randn(10, 4))
    >>> mean.shape, bool((variance > 0).all())
    (torch.Size([10, 1]), True)
    """
    _check_layers(model)
    stages = list(_stages(model, wide(x), None, ""))
    mean = stages[-1].mean if stages else wide(x)
    if mean.ndim != 2:
        raise ShapeError(f"the model gives {tuple(mean.shape)}, but moments are for outputs (rows, features)")
    if not stages or stages[-1].variance is None:
        return mean, torch.zeros_like(mean)
    rows, outputs = mean.shape
    unit = torch.eye(outputs, dtype=mean.dtype, device=mean.device).unsqueeze(1)
    parts = [_variance(stages, unit[i : i + AT_ONCE].expand(-1, rows, -1)) for i in range(0, outputs, AT_ONCE)]
    return mean, torch.cat(parts).mT.clamp_min(0.0)  # a rounding error below it, where nothing is random


def _variance(stages: list[Stage], u: Tensor) -> Tensor:
    """Of linear functions of the output: (F, N, outputs) -> (F, N)."""
    total = u.new_zeros(u.shape[:2])
    for stage in reversed(stages):
        if stage.variance is None:  # nothing before it is random
            break
        u, added = stage.back(u)
        total = total + added
    return total


def _stages(module: nn.Module, mean: Tensor, variance: Tensor | None, name: str) -> Iterator[Stage]:
    """Of a module, or of all that are in a sequence, one after the other."""
    if hooked(module):
        raise UnsupportedError(
            f"{_called(module, name)} has hooks, such as those of an adapter, which moments do not include; merge the "
            "adapter, remove the hooks, or use method='samples'"
        )
    if _like(module, nn.Sequential):
        for key, part in module.named_children():
            stage: Stage | None = None
            for stage in _stages(part, mean, variance, f"{name}.{key}" if name else key):
                yield stage
            if stage is not None:
                mean, variance = stage.mean, stage.variance
        return
    try:
        yield _rule(module, name)(module, mean, variance)
    except UnsupportedError as error:
        if name and name not in str(error):
            raise UnsupportedError(f"{_called(module, name)}: {error}") from error
        raise


def _rule(module: nn.Module, name: str) -> Rule:
    for kind in type(module).__mro__:
        if kind in _rules and _like(module, kind):
            return _rules[kind]
    own = getattr(module, "moments", None)
    if callable(own):
        return lambda _, mean, variance: own(mean, variance)
    raise UnsupportedError(
        f"{_called(module, name)} has no moments; add a rule with "
        f"whvi.predictive.register_moments({type(module).__name__}), or use method='samples'"
    )


def _like(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is of a kind and does the same."""
    return isinstance(module, kind) and runs_as(module, kind)


def _called(module: nn.Module, name: str) -> str:
    return f"module {name!r} ({type(module).__name__})" if name else f"a {type(module).__name__}"


def _check_layers(model: nn.Module) -> None:
    """Raise UnsupportedError where layers are not independent of each other."""
    layers = bayesian_layers(model)
    if sharing(layers):
        raise UnsupportedError("layers share a posterior, so they are not independent; use method='samples'")
    used = [name for name, module in model.named_modules(remove_duplicate=False) if isinstance(module, BayesianLayer)]
    if len(used) != len(layers):
        raise UnsupportedError("a Bayesian layer is used in several places; use method='samples'")


def _unchanged(_: nn.Module, mean: Tensor, variance: Tensor | None) -> Stage:
    """Identity, and dropout in eval mode."""
    return Stage(mean, variance, nothing_added)


def _linear(module: nn.Linear, mean: Tensor, variance: Tensor | None) -> Stage:
    """Exact for independent inputs."""
    rows_only(mean)
    weight = wide(module.weight)
    y = mean @ weight.mT if module.bias is None else mean @ weight.mT + wide(module.bias)
    if variance is None:
        return known(y)
    return Stage(y, variance @ weight.square().mT, lambda u: nothing_added(u @ weight))


def _flatten(module: nn.Flatten, mean: Tensor, variance: Tensor | None) -> Stage:
    """The same elements in another shape."""
    if module.start_dim < 1:
        raise ArgumentError("nn.Flatten must leave the rows on the first axis; use start_dim=1")
    y, shape = module(mean), mean.shape[1:]

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        return nothing_added(u.reshape(*u.shape[:2], *shape))

    return Stage(y, None if variance is None else module(variance), back)


def _batch_norm(module: nn.BatchNorm1d, mean: Tensor, variance: Tensor | None) -> Stage:
    """In eval mode: a factor and an offset for each channel, which are on axis 1."""
    if module.running_mean is None or module.running_var is None:
        raise UnsupportedError("batch normalisation without running statistics couples rows; use method='samples'")
    gain = (wide(module.running_var) + module.eps).rsqrt()
    if module.affine:
        gain = gain * wide(module.weight)
    offset = -wide(module.running_mean) * gain
    if module.affine:
        offset = offset + wide(module.bias)
    axes = (..., *(None,) * (mean.ndim - 2))
    gain, offset = gain[axes], offset[axes]
    y = mean * gain + offset
    return Stage(y, None if variance is None else variance * gain.square(), lambda u: nothing_added(u * gain))


_rules: dict[type[nn.Module], Rule] = {
    **dict.fromkeys((nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout), _unchanged),
    nn.Linear: _linear,
    nn.Flatten: _flatten,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), _batch_norm),
    **dict.fromkeys((nn.ReLU, nn.LeakyReLU), relu),
    **dict.fromkeys((nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.ELU, nn.Softsign), pointwise),
}
