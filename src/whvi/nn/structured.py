"""The structured weight of linear and convolutional layers with a Walsh-Hadamard posterior."""

from collections.abc import Sequence
from math import log
from typing import cast

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw
from whvi.nn.law import WeightDistribution, weight_distribution
from whvi.nn.parts import check_floating, check_precision, make_prior, start_variance, unit_pairs
from whvi.nn.vectors import BIAS, make_bias, repeated, shared_vectors, value_at
from whvi.posterior import ConstantWeightVariance, GaussianPrior, Point, Posterior, Prior, make_posterior
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec
from whvi.structure import Plan, StructuredMatrix, parse, random_permutation

G, SCALES = 0, BIAS + 1  # streams of noise


class StructuredLayer(BayesianLayer):
    """A layer whose weight is W = sum over t of A_t diag(g_t) B_t for each of its groups, with g ~ q(g).

    Args:
        plan: how the weight of one group is built from square blocks.
        groups: their number, as in a grouped convolution; each has its own scales.
        bias_size: length of the bias.
        others: as for ``WHVILinear``.
    """

    def __init__(
        self,
        plan: Plan,
        groups: int,
        bias_size: int,
        bias: bool | Spec,
        *,
        structure: str,
        posterior: Spec,
        scales: Spec,
        prior_variance: float | Prior,
        share_g: bool,
        draws: str,
        weight_variance: float | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(draws)
        self.plan, self.structure, self.groups, self.share_g = plan, parse(structure), groups, share_g
        count = groups * plan.blocks
        alike = not (self.structure.scales or self.structure.permutations)
        if share_g and count > 1 and alike:
            raise ArgumentError(
                f"structure {structure!r} has no scales: {count} blocks that share one g would be equal; "
                "use share_g=False, layout='embed', or a structure with an S"
            )
        if plan.terms > 1 and alike:
            raise ArgumentError(
                f"structure {structure!r} has no scales: a sum of {plan.terms} terms would be one term again; use "
                "terms=1, or a structure with an S"
            )
        check_floating(dtype)
        prior = prior_variance if isinstance(prior_variance, Prior) else GaussianPrior(prior_variance)
        g_variance = prior.initial_variance if isinstance(prior, GaussianPrior) else 1.0
        # var(W_ij) = T E[g^2] * product of E[s^2] / D; g stays at the size of its prior, and scales carry the rest.
        needed = start_variance(weight_variance, 2.0 / plan.in_features) * plan.size / plan.terms
        s_variance = (needed / g_variance) ** (1.0 / max(self.structure.scales, 1))
        g_mean_variance = g_variance if self.structure.scales else needed
        each = (groups, *plan.block_shape) if groups > 1 else plan.block_shape

        def normal(variance: float, *shape: int) -> Tensor:
            return torch.randn(shape, device=device, dtype=dtype).mul_(variance**0.5)

        g_mean = normal(g_mean_variance, *(plan.shared_shape if share_g else each))
        self.g = make_posterior(posterior, g_mean, LOG_STD + 0.5 * log(g_variance))
        self.scales = nn.ModuleList(
            make_posterior(scales, normal(s_variance, *each), name="scales") for _ in range(self.structure.scales)
        )
        for i in range(self.structure.permutations):  # after all that words without P draw
            self.register_buffer(f"permutation{i}", random_permutation(each, device))
        self.prior = make_prior(prior, g_mean)
        if isinstance(prior, ConstantWeightVariance):
            if not all(isinstance(scale, Point) for scale in self.scales):
                raise ArgumentError(f"ConstantWeightVariance needs scales='optimised', got {scales!r}")
            self.gain()  # refuses structures that have none
        self.bias = make_bias(bias, bias_size, g_mean)

    @property
    def permutations(self) -> list[Tensor]:
        """For each P of the word, from the left, its indices, with the shape of a scale; drawn once and not trained."""
        return [self.get_buffer(f"permutation{i}") for i in range(self.structure.permutations)]

    def permute(self, permutations: Sequence[Tensor]) -> None:
        """Replace the permutations that the layer drew."""
        for i, permutation in enumerate(permutations):
            self.register_buffer(f"permutation{i}", permutation)

    def matrix(self, draw: Draw | None, axes: int = 0, positions: int = 0) -> StructuredMatrix:
        """W with its scales at a draw, to multiply x of shape (*draw.shape, ... axes, [groups,] ... positions, in).

        Args:
            draw: None for the mean.
            axes: axes of x between those of the draw and of the groups.
            positions: axes of x after those of the groups.
        """
        values = [value_at(cast(Posterior, s), draw, SCALES + i, axes) for i, s in enumerate(self.scales)]
        fixed = self.permutations if self.structure.permutations else []
        if positions:
            values, fixed = (
                [_make_room(v, len(self.plan.block_shape), positions) for v in vectors] for vectors in (values, fixed)
            )
        return StructuredMatrix(self.structure, self.plan, values, fixed, shared=self.share_g)

    def g_at(self, draw: Draw | None, axes: int = 0, positions: int = 0) -> Tensor:
        """g at a draw, to go with ``matrix``."""
        if self.share_g:
            return value_at(self.g, draw, G, axes + (self.groups > 1) + positions)
        return _make_room(value_at(self.g, draw, G, axes), len(self.plan.block_shape), positions)

    def dense(self, draw: Draw | None) -> Tensor:
        """W at a draw, or its mean: (*draw.shape, [groups,] out, in)."""
        return repeated(self.matrix(draw).dense(self.g_at(draw)), draw, 3 if self.groups > 1 else 2)

    def weight_distribution(self) -> WeightDistribution:
        """The distribution of W in closed form, for a Gaussian (or fixed) g and fixed scales; otherwise an error."""
        return weight_distribution(self.matrix(None), self.g, self.scales, self.groups)

    def gain(self) -> Tensor:
        """Mean square of the entries of W for each element of H g (see ``StructuredMatrix.gain``): as g."""
        gain = self.matrix(None).gain().to(next(self.g.parameters()))
        return gain.mean(0) if self.share_g and self.groups > 1 else gain

    def vectors(self) -> dict[Posterior, int]:
        """g, the bias and the scales, if they are random."""
        scales: dict[Posterior | None, int] = {cast(Posterior, s): SCALES + i for i, s in enumerate(self.scales)}
        return shared_vectors({self.g: G, self.bias: BIAS, **scales})

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """g, the bias and inferred scales."""
        pairs = unit_pairs(self.bias, *self.scales)
        if not isinstance(self.g, Point):
            pairs[self.g] = self.prior.given(self.gain)
        return pairs

    def check(self, x: Tensor) -> None:
        """Raise an error if only one of x and the layer is float64."""
        check_precision(x, self.g.dtype)

    def extra_repr(self) -> str:
        """Structure, blocks and draws, for ``print``."""
        count = f"{self.groups * self.plan.blocks} x {self.plan.size}"
        terms = "" if self.plan.terms == 1 else f"terms={self.plan.terms}, "
        return f"{terms}structure={self.structure.word!r}, blocks={count}, share_g={self.share_g}, draws={self.draws!r}"


def _make_room(value: Tensor, block_axes: int, positions: int) -> Tensor:
    """New axes before those of the blocks, if there are leading axes."""
    if positions and value.ndim > block_axes:
        return value[(..., *(None,) * positions, *(slice(None),) * block_axes)]
    return value
