"""The random vectors of a layer at a draw."""

from collections.abc import Mapping

from torch import Tensor

from whvi.errors import ArgumentError
from whvi.nn.draws import Draw, Shape, entry_of
from whvi.ops.noise import KernelNoise
from whvi.ops.product import Vector
from whvi.posterior import DiagonalGaussian, Point, Posterior, make_posterior
from whvi.posterior.base import wide
from whvi.posterior.spec import Spec

STREAM = 1 << 48
"""The length of the noise stream of one random vector of a layer; the next vector starts there."""
BIAS = 1
"""Stream of noise of a layer's bias; the weight uses the other streams."""


def value_at(posterior: Posterior, draw: Draw | None, stream: int, axes: int = 0) -> Tensor:
    """A random vector at a draw: (*draw.shape, 1 * axes, *event_shape); without the leading axes when it is fixed.

    Args:
        posterior: its distribution.
        draw: None for the mean.
        stream: the index of the layer's random vector.
        axes: axes of the input between those of the draw and the vector's own.
    """
    if type(posterior) is Point or draw is None or isinstance(posterior, Point):  # the first is quickly asked
        return wide(posterior.mean)
    shape = shape_of(draw)
    seed, stream = _source(posterior, draw, stream) if draw.shared else (draw.seed, stream)
    value = posterior.transport(shape, seed, stream * STREAM)
    if axes and shape:
        value = value[(slice(None),) * len(shape) + (None,) * axes]
    return value


def vector_at(posterior: Posterior, draw: Draw | None, stream: int, axes: int = 0) -> Vector:
    """Like ``value_at``, but a diagonal Gaussian stays noise, which is drawn where it is used."""
    if draw is None or type(posterior) is not DiagonalGaussian:
        return value_at(posterior, draw, stream, axes)
    shape = shape_of(draw)
    seed, stream = _source(posterior, draw, stream) if draw.shared else (draw.seed, stream)
    lead = (*shape, *(1,) * axes) if shape else ()
    return KernelNoise(wide(posterior.mean), wide(posterior.log_std), seed, lead, stream * STREAM)


def bias_at(bias: Posterior | None, draw: Draw | None, axes: int = 0) -> Vector | None:
    """The bias of a layer at a draw, if it has one; as ``vector_at``."""
    return None if bias is None else vector_at(bias, draw, BIAS, axes)


def _source(posterior: Posterior, draw: Draw, stream: int) -> tuple[Tensor, int]:
    """Seed and stream of a random vector: the layer's own, or those of the layer that shares it."""
    return entry_of(posterior, draw.shared or {}, (draw.seed, stream))


def shape_of(draw: Draw) -> Shape:
    """``draw.shape``, which must be known."""
    if draw.shape is None:
        raise ArgumentError(
            "this draw is one for each example, whose number only a forward pass knows; give it a shape"
        )
    return draw.shape


def repeated(value: Tensor, draw: Draw | None, event_axes: int) -> Tensor:
    """A fixed value of ``value_at``, which lacks the axes of the draw, repeated for each draw."""
    if draw is None or not draw.shape or value.ndim > event_axes:
        return value
    return value.expand(*draw.shape, *value.shape)


def shared_vectors(streams: Mapping[Posterior | None, int]) -> dict[Posterior, int]:
    """The random parts of a layer with their streams of noise."""
    return {part: n for part, n in streams.items() if part is not None and not isinstance(part, Point)}


def make_bias(bias: bool | Spec | None, size: int, like: Tensor) -> Posterior | None:
    """The distribution of a bias: True for independent Gaussians, False or None for none, or the name of a posterior.

    Args:
        bias: as layers take it.
        size: length of the bias.
        like: a tensor with the dtype and device to use.
    """
    if bias is False or bias is None:
        return None
    return make_posterior("diagonal" if bias is True else bias, like.new_zeros(size), name="bias")
