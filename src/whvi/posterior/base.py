"""The base class of posteriors over a vector."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import DtypeError, UnsupportedError
from whvi.ops import draw_seed, normal
from whvi.ops.precision import full_precision, wide
from whvi.posterior.prior import Prior

__all__ = ["Posterior", "Shape", "standard_normal", "times", "wide"]

Shape = tuple[int, ...]
LAST = "last"
"""The name of the prior of a posterior that replaces its layer's prior: the posterior itself before the rows
that it learns from now (``whvi.inference.posterior_as_prior``)."""


class Posterior(nn.Module, ABC):
    """Distribution q of a tensor of shape ``event_shape`` = (..., D): vectors on the last axis, independent otherwise.

    A draw is a pure function of (parameters, seed, offset); nothing is stored between calls.
    """

    mean: Tensor
    """E[z], of shape ``event_shape``."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_pre_hook(_make_room)  # type: ignore[no-untyped-call]

    @property
    @abstractmethod
    def event_shape(self) -> Shape:
        """Shape of one draw."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.parameters()).dtype

    @abstractmethod
    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """Draws (*shape, *event_shape) from the numbers of the stream ``seed``, starting at ``offset``."""

    @abstractmethod
    def kl(self, prior: Prior) -> Tensor:
        """KL(q || prior) in nats, summed; a scalar. Law: kl >= 0, and zero for a prior that equals q."""

    @checked
    def rsample(
        self,
        shape: Sequence[int] = (),
        generator: torch.Generator | None = None,
        *,
        seed: Tensor | None = None,
        offset: int = 0,
    ) -> Tensor:
        """Differentiable draws: (*shape, *event_shape). A seed (of ``ops.draw_seed``) makes them reproducible."""
        if seed is None:
            seed = draw_seed(generator, next(self.parameters()).device)  # the mean of a flow is costly
        return self.transport(tuple(shape), seed, offset)

    def covariance_root(self) -> Tensor:
        """R of shape (..., D, r) with R R^T the covariance; posteriors that are not Gaussian raise an error."""
        raise UnsupportedError(f"{type(self).__name__} has no covariance in closed form; estimate it from rsample")

    @property
    def variance(self) -> Tensor:
        """Var[z] of each element, of shape ``event_shape``; posteriors that are not Gaussian raise an error."""
        return self.covariance_root().square().sum(-1).reshape(self.event_shape)

    def extra_repr(self) -> str:
        """Shape of the vector, for ``print``."""
        return f"event_shape={tuple(self.event_shape)}"


def _make_room(posterior: nn.Module, *arguments: Any) -> None:
    """Prepare for a state that may contain an earlier posterior as the prior."""
    from whvi.posterior.last import make_room  # it is made of posteriors

    make_room(posterior, *arguments)


def check_floating(name: str, x: Tensor) -> None:
    """Raise DtypeError unless the dtype is floating point."""
    if not x.is_floating_point():
        raise DtypeError(f"{name} has dtype {x.dtype}, but must be floating point; use {name}.float()")


def standard_normal(like: Tensor, shape: Shape, seed: Tensor, offset: int) -> Tensor:
    """Standard normals in the compute precision of ``like``: float64 for float64, otherwise float32."""
    return normal(seed, offset, shape, dtype=torch.float64 if like.dtype == torch.float64 else torch.float32)


def times(matrix: Tensor, vectors: Tensor) -> Tensor:
    """(..., n, m), (..., m) -> (..., n), in full precision under autocast as well."""
    with full_precision(matrix):
        return torch.einsum("...ij,...j->...i", matrix, vectors)
