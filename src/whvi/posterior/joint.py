"""One posterior over several vectors, which are then correlated with each other."""

import torch
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.posterior.base import Posterior, Shape
from whvi.posterior.prior import GaussianPrior, Prior


class JointPosterior(Posterior):
    """The distribution of a tensor of any shape, from a posterior over its flattened elements.

    The vectors g of the terms of a weight explain the same data, so their true posterior is correlated. Under any other
    posterior of this package they are independent.

    Args:
        flat: a posterior over one vector of all elements.
        event_shape: of a draw.

    Law: a draw is the draw of ``flat``, reshaped, and the KL is that of ``flat``.

    >>> import torch
    >>> from whvi.posterior import FullGaussian
    >>> JointPosterior(FullGaussian(torch.zeros(6)), (2, 3)).rsample((5,)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(self, flat: Posterior, event_shape: Shape) -> None:
        super().__init__()
        self.flat, self._event_shape = flat, tuple(event_shape)

    @property
    def event_shape(self) -> Shape:
        """Shape of one draw."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """E[z], of shape ``event_shape``."""
        return self.flat.mean.reshape(self._event_shape)

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return self.flat.dtype

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """Draws of the vector, reshaped."""
        return self.flat.transport(shape, seed, offset).reshape(*shape, *self._event_shape)

    def kl(self, prior: Prior) -> Tensor:
        """KL(q || prior) of the vector, for a prior that is the same for all elements."""
        own = type(prior).centred is not Prior.centred  # what this posterior was before, also of one vector
        if not (own or isinstance(prior, GaussianPrior)):
            raise ArgumentError(f"a joint posterior needs a GaussianPrior or a number, got a {type(prior).__name__}")
        return self.flat.kl(prior)

    def covariance_root(self) -> Tensor:
        """R of all elements as one vector: (n, r)."""
        return self.flat.covariance_root()
