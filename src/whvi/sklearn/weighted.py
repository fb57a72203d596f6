"""A likelihood whose rows have weights."""

import torch
from torch import Tensor

from whvi.likelihoods import Discrete, Likelihood


class Weighted(Likelihood):
    """log p(y | f) times the weight of the row: what that many rows of the kind would say.

    It is for training; predictions take the likelihood within.

    Args:
        inner: the distribution of a target. Targets get the weight as one more column: (N, columns + 1).

    Law: the sum of ``log_prob`` over rows of whole weights is that of ``inner`` over the rows repeated.

    >>> from whvi.likelihoods import Gaussian
    >>> inner, f = Gaussian(variance=1.0, learned=False), torch.zeros(1, 1)
    >>> Weighted(inner).log_prob(f, torch.tensor([[2.0, 3.0]])) / inner.log_prob(f, torch.tensor([[2.0]]))
    tensor([3.])
    """

    def __init__(self, inner: Likelihood) -> None:
        super().__init__()
        self.inner, self.outputs, self.frozen_steps = inner, inner.outputs, inner.frozen_steps

    @property
    def features(self) -> int:
        """As within."""
        return self.inner.features

    @property
    def noise(self) -> float | None:
        """As within."""
        return self.inner.noise

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """(..., N, features), (N, columns + 1) -> (..., N)."""
        return self.inner.log_prob(f, self._plain(y)) * y[..., -1].to(f.dtype)

    def targets(self, y: Tensor) -> Tensor:
        """(N, columns + 1), where the first columns are targets of ``inner``."""
        self.inner.targets(self._plain(y))
        return y

    def mean(self, f: Tensor) -> Tensor:
        """As within."""
        return self.inner.mean(f)

    def variance(self, f: Tensor) -> Tensor:
        """As within."""
        return self.inner.variance(f)

    def entropy(self, f: Tensor) -> Tensor:
        """As within."""
        return self.inner.entropy(f)

    def sample(self, f: Tensor, seed: int | Tensor | None = None) -> Tensor:
        """As within."""
        return self.inner.sample(f, seed)

    def _plain(self, y: Tensor) -> Tensor:
        return y[..., 0].long() if isinstance(self.inner, Discrete) else y[..., :-1]


def with_weights(y: Tensor, weight: Tensor) -> Tensor:
    """Targets as ``Weighted`` takes them: (N,) or (N, outputs), (N,) -> (N, columns + 1)."""
    columns = y.unsqueeze(-1) if y.ndim == 1 else y
    return torch.cat([columns.to(weight.dtype), weight.unsqueeze(-1)], dim=-1)
