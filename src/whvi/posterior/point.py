"""A point estimate: optimised, not inferred."""

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.posterior.base import Posterior, Shape, check_floating, wide
from whvi.posterior.prior import Prior


class Point(Posterior):
    """All mass on one value. Its KL is zero by convention: the value is a parameter of the model, not a variable.

    >>> import torch
    >>> Point(torch.ones(2)).rsample((3,)).shape
    torch.Size([3, 2])
    """

    @checked
    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        check_floating("mean", mean)
        self.mean = nn.Parameter(mean)

    @property
    def event_shape(self) -> Shape:
        """Shape of the value."""
        return tuple(self.mean.shape)

    def transport(self, shape: Shape, seed: Tensor, offset: int) -> Tensor:
        """The value itself, once for each draw, without a copy."""
        mean = wide(self.mean)
        return mean.expand(*shape, *mean.shape) if shape else mean

    def kl(self, prior: Prior) -> Tensor:
        """Zero."""
        return self.mean.new_zeros(())

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(wide(self.mean))

    def covariance_root(self) -> Tensor:
        """No spread: (..., D, 0)."""
        return wide(self.mean).new_zeros((*self.mean.shape, 0))
