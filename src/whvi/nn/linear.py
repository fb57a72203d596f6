"""Linear layers with a Walsh-Hadamard posterior."""

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
            initial mean. Terms, and blocks with their own g, are independent; with "joint:full" and similar names
            they are correlated.
        scales: "optimised" (a point estimate) or the name of a posterior, with a standard normal prior.
        prior_variance: of g, or a ``Prior``. It is a choice of units: (c g, s / c) is the same weight.
        share_g: True for one g for all K blocks, False for one g per block.
        terms: T, the number of structured weights whose sum is W, each with its own g and scales; 1 in the paper. More
            terms help with large datasets, at T times the cost.
        layout: "stack" (K blocks stacked vertically), "grid" (blocks in rows and columns), "embed" (a
            part of one large block) or "reshape" (see ``WHVIColumn``).
        block: side of the blocks of a grid: 1, 2, 4, 8, 12, 16, 20, ... (``whvi.ops.next_order``). Smaller blocks
            have more scales and, with ``share_g=False``, more g, up to mean field at block=1.
        pad_to: allowed sides of the blocks of "stack" and "embed": any "order" m 2^k with m = 1, 12, 20, 28, 36,
            if that needs fewer parameters, or "power_of_two" as in the paper.
        draws: "example", new weights for each row, or "batch", the same for all rows of a call; in training
            and in evaluation (``whvi.mean_mode`` turns noise off).
        weight_variance: initial variance of the entries of W; default 2 / in_features, for ReLU.
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
        """Exact; in O(D log D) for independent g, by the distribution of W for correlated g.

        Random scales and a g that is not Gaussian raise an error.
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
    """A linear layer with few outputs: the weight vector of each output is a structured matrix, row by row.

    n weights have O(sqrt(n)) parameters; stacking would need as many as mean field. By default each output has
    its own g.

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
