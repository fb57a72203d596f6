"""Linear layers under a Walsh-Hadamard posterior."""

from typing import Any

import torch
from torch import Tensor

from whvi.annotations import checked, checked_but
from whvi.nn.draws import Draw
from whvi.nn.moments import Stage, gaussian_weight, rows_only, with_bias
from whvi.nn.parts import check_features
from whvi.nn.structured import G, StructuredLayer
from whvi.nn.vectors import bias_at, vector_at
from whvi.posterior import DiagonalGaussian, Point, Prior
from whvi.posterior.base import wide
from whvi.posterior.spec import Spec
from whvi.structure import make_plan
from whvi.structure.moments import StructuredMoments


class WHVILinear(StructuredLayer):
    """y = W x + b with W = sum over t of A_t diag(g_t) B_t, g ~ q(g): O(D) parameters and O(D log D) time.

    Args:
        in_features, out_features: as for nn.Linear.
        bias: True for an independent Gaussian bias, False for none, or the name of a posterior ("point", ...).
        structure: a word such as "SHGHS" (the paper's S1 H diag(g) H S2), "SHGH", "SHGHSH", "GH", or with a fixed
            permutation "SHGPHS".
        posterior: of g: "diagonal", "low_rank:8", "full", "planar:10", "planar:10:full", "point", or a function of the
            initial mean. Terms, and blocks with a g of their own, are independent; under "joint:full" and the like
            they are correlated.
        scales: "optimised" (a point estimate) or the name of a posterior, under a standard normal prior.
        prior_variance: of g, or a ``Prior``. Scales make up for it: (c g, s / c) is the same weight.
        share_g: one g for all K blocks that are stacked; else each block has its own.
        terms: T, how many structured weights W is the sum of, each with its own g and scales; 1 is the paper's. More
            of them learn more where data are rich, at T times the cost.
        layout: "stack" (K blocks on top of each other), "grid" (blocks beside and on top of each other), "embed" (a
            part of one large block) or "reshape" (see ``WHVIColumn``).
        block: of a grid, the side of its blocks: 1, 2, 4, 8, 12, 16, 20, ... (``whvi.ops.next_order``). Smaller blocks
            have more scales and, with ``share_g=False``, more g, up to mean field at block=1.
        pad_to: what the side of a block of "stack" and "embed" may be: any "order" m 2^k with m = 1, 12, 20, 28, 36,
            where that takes fewer parameters, or "power_of_two" as in the paper.
        draws: "example", weights of their own for each row, or "batch", the same for all rows of a call; in training
            and in evaluation alike (``whvi.mean_mode`` turns noise off).
        weight_variance: of the entries of W at the start; default 2 / in_features, which suits ReLU.
        device, dtype: of the parameters; float32 parameters also take inputs of half precision.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under a fixed draw, forward(x) == x @ weight_at(draw).T + bias_value(draw).

    >>> layer = WHVILinear(100, 200)
    >>> layer(torch.randn(32, 100)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 200]), 1072)
    """

    @checked_but("bias", "prior_variance")
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
        terms: int = 1,
        layout: str = "stack",
        block: int | None = None,
        pad_to: str = "order",
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            make_plan(layout, in_features, out_features, terms, block=block, pad_to=pad_to),
            1,
            out_features,
            bias,
            structure=structure,
            posterior=posterior,
            scales=scales,
            prior_variance=prior_variance,
            share_g=share_g,
            draws=draws,
            weight_variance=weight_variance,
            device=device,
            dtype=dtype,
        )
        self.in_features, self.out_features = in_features, out_features

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        axes = 0 if draw is None else x.ndim - 1 - len(draw.shape or ())
        return self.matrix(draw, axes).apply(vector_at(self.g, draw, G, axes), x, bias_at(self.bias, draw, axes))

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """W at a draw, or its mean: (*draw.shape, out_features, in_features)."""
        return self.dense(draw)

    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        """Exact; in O(D log D) for independent g, by the distribution of W for one that is correlated.

        Scales that are random, and a g that is not Gaussian, are refused.
        """
        rows_only(mean)
        matrix, g = self.matrix(None), self.g
        fixed = all(isinstance(scale, Point) for scale in self.scales)
        if not (fixed and isinstance(g, DiagonalGaussian | Point) and StructuredMoments.known(matrix)):
            return with_bias(gaussian_weight(self.weight_distribution(), mean, variance), self.bias)
        y = StructuredMoments(matrix, wide(g.mean), g.variance, mean, variance)
        return with_bias(Stage(y.mean, y.variance, y.back), self.bias)

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        check_features(x, self.in_features)
        super().check(x)

    def extra_repr(self) -> str:
        """Sizes, structure and draws, for ``print``."""
        return f"{self.in_features}, {self.out_features}, layout={self.plan.layout!r}, {super().extra_repr()}"


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

    @checked
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
