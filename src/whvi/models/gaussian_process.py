"""Gaussian processes by random features: f(x) = phi(x) . w with w ~ N(0, I), and a posterior over w."""

import warnings
from collections.abc import Callable, Sequence
from math import isqrt, sqrt
from typing import Any

from torch import Tensor, nn

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.models.random_features import RandomFeatures
from whvi.nn import FullCovarianceLinear, MeanFieldLinear, WHVIColumn

POSTERIORS: dict[str, Callable[..., nn.Module]] = {
    "mean-field": MeanFieldLinear,
    "full": FullCovarianceLinear,
    "whvi": WHVIColumn,
    "whvi-full": lambda *sizes, **options: WHVIColumn(*sizes, posterior="full", **options),
}
"""Distributions of the weights of n features, by name, and their parameters for each output: 2 n; n (n + 3) / 2; with a
structured matrix of D^2 = n entries 4 D; and 2 D + D (D + 3) / 2."""


class RandomFeatureGP(nn.Module):
    """A Gaussian process whose kernel is a sum over random features; fit it with ``whvi.fit``, like any network.

    Args:
        in_features: F.
        features: n. For "whvi" and "whvi-full" preferably 4, 16, 64, ... : n weights are the entries of a square matrix
            whose side is a power of two. For any other number a part of the matrix is unused.
        outputs: number of functions; they share features, not weights.
        posterior: one of ``POSTERIORS``.
        lengthscale: default sqrt(F / 2) for each input, for inputs in the unit cube.
        draws: "example" or "batch", as for layers.
        options: as for ``RandomFeatures``.

    Shapes: (..., F) -> (..., outputs).

    Law: the product with the structured matrix never builds it: time O(n) and memory O(n) for each row.

    >>> import torch
    >>> gp = RandomFeatureGP(8, 4096)
    >>> gp(torch.rand(32, 8)).shape, sum(p.numel() for p in gp.weights.parameters())
    (torch.Size([32, 1]), 256)
    """

    @checked
    def __init__(
        self,
        in_features: int,
        features: int,
        outputs: int = 1,
        *,
        posterior: str = "whvi",
        lengthscale: float | Sequence[float] | Tensor | None = None,
        draws: str = "example",
        **options: Any,
    ) -> None:
        super().__init__()
        if posterior not in POSTERIORS:
            raise ArgumentError(f"posterior {posterior!r} is unknown; use one of: {', '.join(POSTERIORS)}")
        if posterior.startswith("whvi") and not _square_of_power_of_two(whole_number("features", features)):
            warnings.warn(
                f"{features} features are not the square of a power of two: the structured matrix is padded, and costs "
                "as much as one of the next such size",
                stacklevel=2,
            )
        if lengthscale is None:
            lengthscale = sqrt(whole_number("in_features", in_features) / 2)
        self.phi = RandomFeatures(in_features, features, lengthscale=lengthscale, **options)
        like = self.phi.log_variance
        self.weights = POSTERIORS[posterior](
            features, outputs, bias=False, draws=draws, device=like.device, dtype=like.dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        """The functions at x, at a draw: (..., F) -> (..., outputs)."""
        f: Tensor = self.weights(self.phi(x))
        return f


def _square_of_power_of_two(number: int) -> bool:
    side = isqrt(number)
    return side**2 == number and side & (side - 1) == 0
