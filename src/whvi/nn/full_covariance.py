"""A linear layer whose weights of each output are jointly Gaussian: the most general Gaussian posterior."""

from math import log
from typing import Any

from torch import Tensor

from whvi.annotations import checked
from whvi.nn.mean_field import MeanFieldLinear
from whvi.nn.parts import start_variance
from whvi.posterior import FullGaussian
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec


class FullCovarianceLinear(MeanFieldLinear):
    """y = W x + b, where row k of W is N(m_k, L_k L_k^T), independent of the others.

    It is here, and not with the paper's baselines, because ``RandomFeatureGP(posterior="full")`` uses it.

    O(n^2) parameters and time for n inputs: for linear models of at most a few thousand features.

    Args, shapes and law: as for ``MeanFieldLinear``; the initial variance is ``weight_variance`` times exp(-4).

    >>> import torch
    >>> layer = FullCovarianceLinear(16, 1, bias=False)
    >>> layer(torch.randn(8, 16)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([8, 1]), 152)
    """

    @checked
    def __init__(self, in_features: int, out_features: int, bias: bool | Spec = True, **options: Any) -> None:
        super().__init__(in_features, out_features, bias, **options)
        variance = start_variance(options.get("weight_variance"), 1.0 / in_features)
        self.weights = FullGaussian(self.weights.mean.detach(), LOG_STD + 0.5 * log(variance))

    def spread(self, x: Tensor) -> Tensor:
        """Variance of the outputs, x^T L_k L_k^T x: (..., in) -> (..., out)."""
        # One product with the roots side by side, (in, out * in).
        roots = self.weights.covariance_root()
        parts = (x @ roots.movedim(0, 1).flatten(1)).unflatten(-1, roots.shape[:2])
        variance: Tensor = parts.square().sum(-1)
        return variance
