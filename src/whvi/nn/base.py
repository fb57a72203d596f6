"""What every Bayesian layer has in common: how a forward pass gets its draw, and how KL terms add up."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError
from whvi.nn.draws import Draw, Shape, fixed_draws
from whvi.ops import draw_seed
from whvi.posterior import Point, Posterior, make_posterior
from whvi.posterior.base import wide
from whvi.posterior.spec import Spec

STREAM = 1 << 48
"""Numbers of a seed's stream that belong to one random vector of a layer; the next vector starts there."""


class BayesianLayer(nn.Module, ABC):
    """A layer whose forward pass draws weights: ``forward(x) -> Tensor`` and nothing else.

    ``draws="example"`` is an independent draw for each example, ``"batch"`` one for each call; ``whvi.sampling`` and
    ``whvi.mean_mode`` fix them. A pass keeps nothing on the layer, so copies, threads, vmap and graphs work.

    Law: forward under a fixed draw == the plain layer with ``weight(draw)`` and ``bias_value(draw)``.
    """

    feature_axes = 1
    """Last axes of the input that make up one example."""

    def __init__(self, draws: str) -> None:
        super().__init__()
        if draws not in ("example", "batch"):
            raise ArgumentError(f"draws must be 'example' or 'batch', got {draws!r}")
        self.draws = draws

    @abstractmethod
    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw, or at its mean. The leading axes of x start with ``draw.shape``, which is never None."""

    @abstractmethod
    def weight(self, draw: Draw | None = None) -> Tensor:
        """The dense weight at a draw (with ``draw.shape`` in front), or the mean weight."""

    @abstractmethod
    def bias_value(self, draw: Draw | None = None) -> Tensor | None:
        """The bias at a draw (with ``draw.shape`` in front), or its mean; None for a layer without one."""

    @abstractmethod
    def kl_terms(self) -> dict[nn.Module, Tensor]:
        """KL of each random part to its prior, keyed by the module that owns its parameters."""

    @abstractmethod
    def check(self, x: Tensor) -> None:
        """Raise the error that says what is wrong with the shape of x, if anything is."""

    def kl(self) -> Tensor:
        """KL(posterior || prior) in nats, summed over all random vectors of the layer, unscaled; a scalar."""
        terms = iter(self.kl_terms().values())
        total = next(terms, None)
        if total is None:
            return torch.zeros(())
        for term in terms:
            total = total + term
        return total

    def draw(self, shape: Shape | None = (), generator: torch.Generator | None = None) -> Draw:
        """A fresh draw: one (), S of them (S,), or one for each example (None)."""
        return Draw(draw_seed(generator, next(self.parameters()).device), shape)

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., features) -> (..., features)."""
        if not isinstance(x, Tensor):
            raise InputTypeError(f"x must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
        self.check(x)
        if not x.is_floating_point():
            raise DtypeError(f"x has dtype {x.dtype}, but this layer takes floating point; convert it with x.float()")
        x = autocast(x)
        fixed = fixed_draws()
        if fixed is not None and self in fixed:
            draw = fixed[self]
        else:
            draw = Draw(draw_seed(device=x.device), None if self.draws == "example" else ())
        if draw is None or draw.shape == ():
            return self.evaluate(x, draw)
        lead = x.shape[: x.ndim - self.feature_axes]
        if draw.shape is None:
            return self.evaluate(x, draw._replace(shape=tuple(lead)))
        parts = draw.shape[0]
        if not lead or lead[0] % parts:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, but its first axis must be {parts} equal parts, one for each draw; "
                f"repeat x {parts} times along it"
            )
        return self.evaluate(x.unflatten(0, (parts, -1)), draw).flatten(0, 1)


def autocast(x: Tensor) -> Tensor:
    """x in the precision of ``torch.autocast``, where that is on; as for nn.Linear, float64 stays."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype != torch.float64:
        return x.to(torch.get_autocast_dtype(kind))
    return x


def value_at(posterior: Posterior, draw: Draw | None, stream: int, axes: int = 0) -> Tensor:
    """A random vector at a draw: (*draw.shape, 1 * axes, *event_shape); without the leading axes when it is fixed.

    Args:
        posterior: its law.
        draw: None for the mean.
        stream: which of the layer's random vectors this is.
        axes: axes of the input between those of the draw and the vector's own.
    """
    if draw is None or isinstance(posterior, Point):
        return wide(posterior.mean)
    shape = shape_of(draw)
    value = posterior.transport(shape, draw.seed, stream * STREAM)
    if axes and shape:
        value = value[(slice(None),) * len(shape) + (None,) * axes]
    return value


def shape_of(draw: Draw) -> Shape:
    """``draw.shape``, which must be known."""
    if draw.shape is None:
        raise ArgumentError(
            "this draw is one for each example, whose number only a forward pass knows; give it a shape"
        )
    return draw.shape


def repeated(value: Tensor, draw: Draw | None, event_axes: int) -> Tensor:
    """A value that ``value_at`` left without the axes of the draw, because it is fixed, once for each draw."""
    if draw is None or not draw.shape or value.ndim > event_axes:
        return value
    return value.expand(*draw.shape, *value.shape)


BIAS = 1
"""Stream of noise of a layer's bias; the weight has the others."""


def make_bias(bias: bool | Spec, size: int, like: Tensor) -> Posterior | None:
    """The law of a bias: True for an independent Gaussian, False for none, or what a posterior is named by.

    Args:
        bias: as layers take it.
        size: length of the bias.
        like: a tensor of the wanted dtype and device.
    """
    return None if bias is False else make_posterior("diagonal" if bias is True else bias, like.new_zeros(size))


def add_bias(y: Tensor, bias: Posterior | None, draw: Draw | None, axes: int) -> Tensor:
    """y plus the bias at a draw: (..., features) -> the same; ``axes`` as for ``value_at``."""
    return y if bias is None else y + value_at(bias, draw, BIAS, axes).to(y.dtype)
