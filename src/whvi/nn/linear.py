"""Linear layers under a Walsh-Hadamard posterior."""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from whvi.errors import ShapeError
from whvi.nn.base import STREAM, BayesianLayer, value_at
from whvi.nn.draws import Draw
from whvi.posterior import DiagonalGaussian, GaussianPrior, Point, Posterior, Prior, make_posterior
from whvi.posterior.base import wide
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec
from whvi.structure import KernelNoise, StructuredMatrix, make_plan, parse

_G, _BIAS, _SCALES = 0, 1, 2  # streams of noise


class WHVILinear(BayesianLayer):
    """y = W x + b with W = A diag(g) B, g ~ q(g): O(D) parameters and O(D log D) time.

    Args:
        in_features, out_features: as for nn.Linear.
        bias: True for an independent Gaussian bias, False for none, or the name of a posterior ("point", ...).
        structure: a word such as "SHGHS" (the paper's S1 H diag(g) H S2), "SHGH", "SHGHSH" or "GH".
        posterior: of g: "diagonal", "low_rank:8", "full", "planar:10", "planar:10:full", "point", or a function of the
            initial mean.
        scales: "optimised" (a point estimate) or the name of a posterior, under a standard normal prior.
        prior_variance: of g, or a ``Prior``. Scales make up for it: (c g, s / c) is the same weight.
        share_g: one g for all K blocks that are stacked; else each block has its own.
        layout: "stack" (K blocks on top of each other), "embed" (a part of one large block) or "reshape" (see
            ``WHVIColumn``).
        draws: "example" or "batch".
        weight_variance: of the entries of W at the start; default 2 / in_features, which suits ReLU.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under a fixed draw, forward(x) == x @ weight(draw).T + bias_value(draw).

    >>> layer = WHVILinear(100, 200)
    >>> layer(torch.randn(32, 100)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 200]), 1168)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool | Spec = True,
        *,
        structure: str = "SHGHS",
        posterior: Spec = "diagonal",
        scales: Spec = "optimised",
        prior_variance: float | Prior = 1.0,
        share_g: bool = True,
        layout: str = "stack",
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(draws)
        self.structure = parse(structure)
        self.plan = plan = make_plan(layout, in_features, out_features)
        self.in_features, self.out_features = in_features, out_features
        self.share_g = share_g
        self.prior = prior_variance if isinstance(prior_variance, Prior) else GaussianPrior(prior_variance)
        self.unit_prior = GaussianPrior(1.0)
        g_variance = float(self.prior.variance) if isinstance(self.prior, GaussianPrior) else 1.0
        # var(W_ij) = E[g^2] * product of E[s^2] / D; g stays at the size of its prior where scales can carry the rest.
        needed = (2.0 / in_features if weight_variance is None else weight_variance) * plan.size
        s_variance = (needed / g_variance) ** (1.0 / max(self.structure.scales, 1))
        g_mean_variance = g_variance if self.structure.scales else needed

        def normal(variance: float, *shape: int) -> Tensor:
            return torch.randn(shape, device=device, dtype=dtype).mul_(variance**0.5)

        g_shape = (plan.size,) if share_g else plan.block_shape
        self.g = make_posterior(posterior, normal(g_mean_variance, *g_shape), LOG_STD + 0.5 * math.log(g_variance))
        self.scales = nn.ModuleList(
            make_posterior(scales, normal(s_variance, *plan.block_shape)) for _ in range(self.structure.scales)
        )
        self.bias: Posterior | None = None
        if bias is not False:
            zeros = torch.zeros(out_features, device=device, dtype=dtype)
            self.bias = make_posterior("diagonal" if bias is True else bias, zeros)
        self.matrix(None)  # refuses what does not go together

    def matrix(self, draw: Draw | None, axes: int = 0) -> StructuredMatrix:
        """The structured matrix with its scales at a draw; ``axes`` as for ``value_at``."""
        values = [value_at(cast(Posterior, s), draw, _SCALES + i, axes) for i, s in enumerate(self.scales)]
        return StructuredMatrix(self.structure, self.plan, values, shared=self.share_g)

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        axes = 0 if draw is None else x.ndim - 1 - len(draw.shape or ())
        g = self.g
        if draw is not None and type(g) is DiagonalGaussian:
            lead = (*(draw.shape or ()), *(1,) * axes) if draw.shape else ()
            noise = KernelNoise(wide(g.mean), wide(g.log_std), draw.seed, lead, _G * STREAM)
            y = self.matrix(draw, axes).apply(noise, x)
        else:
            y = self.matrix(draw, axes).apply(value_at(g, draw, _G, axes), x)
        return y if self.bias is None else y + value_at(self.bias, draw, _BIAS, axes).to(y.dtype)

    def weight(self, draw: Draw | None = None) -> Tensor:
        """W at a draw, or its mean: (*draw.shape, out_features, in_features)."""
        return self.matrix(draw).dense(value_at(self.g, draw, _G))

    def bias_value(self, draw: Draw | None = None) -> Tensor | None:
        """b at a draw, or its mean: (*draw.shape, out_features)."""
        return None if self.bias is None else value_at(self.bias, draw, _BIAS)

    def kl_terms(self) -> dict[nn.Module, Tensor]:
        """Of g, of the bias and of scales that are inferred."""
        terms: dict[nn.Module, Tensor] = {}
        if not isinstance(self.g, Point):
            terms[self.g] = self.g.kl(self.prior.given(lambda: self.matrix(None).gain()))
        for vector in (self.bias, *self.scales):
            if isinstance(vector, Posterior) and not isinstance(vector, Point):
                terms[vector] = vector.kl(self.unit_prior)
        return terms

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, but its last axis must be in_features = {self.in_features}"
            )

    def extra_repr(self) -> str:
        """Sizes and structure, for ``print``."""
        plan = self.plan
        return (
            f"{self.in_features}, {self.out_features}, structure={self.structure.word!r}, layout={plan.layout!r}, "
            f"blocks={plan.blocks} x {plan.size}, share_g={self.share_g}, draws={self.draws!r}"
        )


class WHVIColumn(WHVILinear):
    """A linear map to few outputs: the weight vector of each output is a structured matrix, row after row.

    n weights cost O(sqrt(n)) parameters, where stacking would be no better than mean field. By default each output has
    a g of its own.

    Args:
        in_features: n.
        out_features: number of weight vectors.
        bias, options: as for ``WHVILinear``.

    >>> layer = WHVIColumn(4096)
    >>> layer(torch.randn(32, 4096)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 1]), 258)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        bias: bool | Spec = True,
        *,
        share_g: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features, bias, share_g=share_g, layout="reshape", **options)
