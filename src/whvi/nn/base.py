"""The base class of Bayesian layers: how a forward pass gets its draw, and how KL terms are summed."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked_but
from whvi.errors import ArgumentError, DtypeError, InputTypeError, UnsupportedError
from whvi.nn.draws import FRESH, Draw, PartsError, Shape, entry_of, fixed_draws, is_fresh
from whvi.nn.moments import Stage
from whvi.nn.ties import check_alone, note_user
from whvi.nn.vectors import BIAS, repeated, value_at
from whvi.ops import draw_seed
from whvi.ops.checks import check_shape
from whvi.ops.precision import autocast_is_on
from whvi.posterior import Posterior, Prior, each_kl, total_kl


class BayesianLayer(nn.Module, ABC):
    """A layer whose forward pass draws weights: ``forward(x) -> Tensor``, without other outputs.

    ``draws="example"`` is an independent draw for each example, ``"batch"`` one for each call; ``whvi.sampling`` and
    ``whvi.mean_mode`` fix them. A pass stores nothing on the layer, so copies, threads, vmap and graphs work.

    Law: forward under a fixed draw == the plain layer with ``weight_at(draw)`` and ``bias_value(draw)``.
    """

    feature_axes = 1
    """Last axes of the input that make up one example."""
    bias: Posterior | None
    """Distribution of the bias, if the layer has one."""
    _may_share = False
    """Whether another layer also has a posterior of this layer."""

    def __init__(self, draws: str) -> None:
        super().__init__()
        if draws not in ("example", "batch"):
            raise ArgumentError(f"draws must be 'example' or 'batch', got {draws!r}")
        self.draws = draws

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, nn.Module):
            note_user(self, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # of a copy, or from a pickle
        note_user(self, self)

    @abstractmethod
    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw, or at its mean. The leading axes of x start with ``draw.shape``, which is never None."""

    @abstractmethod
    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The dense weight at a draw (with ``draw.shape`` in front), or the mean weight."""

    @abstractmethod
    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """Maps each random part (the module with its parameters) to its prior, or to its KL if it has no prior."""

    @abstractmethod
    def check(self, x: Tensor) -> None:
        """Raise an error if the shape of x is wrong."""

    def vectors(self) -> dict[Posterior, int]:
        """Random vectors that layers can share, with their streams of noise."""
        return {}

    @property
    def weight(self) -> Tensor:
        """The mean weight, under the name that torch's layers use: for code that reads its shape, dtype and device."""
        return self.weight_at()

    def bias_value(self, draw: Draw | None = None) -> Tensor | None:
        """The bias at a draw, or its mean: (*draw.shape, outputs); None for a layer without one."""
        return None if self.bias is None else repeated(value_at(self.bias, draw, BIAS), draw, 1)

    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        """Mean and variance of the output from those of the input, for ``whvi.predict(method="moments")``.

        Args:
            mean, variance: of independent inputs, (N, features); variance None for inputs without uncertainty.
        """
        raise UnsupportedError(f"{type(self).__name__} has no moments; use method='samples'")

    def kl(self) -> Tensor:
        """KL(posterior || prior) in nats, summed over all random vectors of the layer, unscaled; a scalar."""
        return total_kl(self.kl_pairs())

    def kl_terms(self) -> dict[nn.Module, Tensor]:
        """KL of each random part to its prior, keyed as in ``kl_pairs``."""
        return each_kl(self.kl_pairs())

    @checked_but("shape")
    def draw(self, shape: Shape | None = (), generator: torch.Generator | None = None) -> Draw:
        """A new draw: one (), S of them (S,), or one for each example (None)."""
        if shape is not None:
            check_shape("shape", shape)
            shape = tuple(shape)
        return Draw(draw_seed(generator, next(self.parameters()).device), shape)

    def forward(self, x: Tensor) -> Tensor:
        """x: (..., features) -> (..., features)."""
        if not isinstance(x, Tensor):
            raise InputTypeError(f"x must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
        if not x.is_floating_point():
            raise DtypeError(f"x has dtype {x.dtype}, but this layer takes floating point; convert it with x.float()")
        self.check(x)
        x = autocast(x)
        fixed = fixed_draws()
        draw = FRESH if fixed is None else entry_of(self, fixed, FRESH)
        if is_fresh(draw):
            check_alone(self)
            draw = Draw(draw_seed(device=x.device), None if self.draws == "example" else ())
        if draw is None or draw.shape == ():
            y = self.evaluate(x, draw)
        elif draw.shape is None:
            lead = tuple(x.shape[: x.ndim - self.feature_axes])
            if draw.rows > 1 and (not lead or lead[0] % draw.rows):
                raise PartsError(f"x has shape {tuple(x.shape)}, but its first axis must be the {draw.rows} rows")
            y = self.evaluate(x, Draw(draw.seed, lead, shared=draw.shared))
        else:
            y = self._in_parts(x, draw, draw.shape)
        return as_laid_out(y, x, self.feature_axes)

    def _in_parts(self, x: Tensor, draw: Draw, shape: Shape) -> Tensor:
        """The layer at S draws, one for each of S equal parts of x."""
        if len(shape) > 1:
            raise ArgumentError(f"a forward pass takes draws of shape () or (S,), got {shape}; flatten them")
        (parts,) = shape
        if x.ndim <= self.feature_axes or x.shape[0] % (parts * draw.rows):
            each = "" if draw.rows == 1 else f" of {draw.rows} rows"
            raise PartsError(
                f"x has shape {tuple(x.shape)}, but its first axis must be {parts} equal parts{each}, one for each "
                f"draw; repeat x {parts} times along it"
            )
        return self.evaluate(x.unflatten(0, (parts, -1)), draw).flatten(0, 1)


def as_laid_out(y: Tensor, x: Tensor, feature_axes: int) -> Tensor:
    """y in the memory layout of torch's own layer, so that ``view`` works: contiguous, or, for images that are
    not contiguous, in the layout of the input."""
    images = feature_axes > 1 and not x.is_contiguous()
    return y if images or y.is_contiguous() else y.contiguous()


def autocast(x: Tensor) -> Tensor:
    """x in the precision of ``torch.autocast`` if it is on; as for nn.Linear, float64 stays."""
    kind = x.device.type
    if autocast_is_on(kind) and x.dtype != torch.float64:
        return x.to(torch.get_autocast_dtype(kind))
    return x
