"""Monte Carlo dropout as a Bayesian layer: inputs that are dropped are columns of the weight that are zero."""

from abc import abstractmethod
from math import inf, prod
from statistics import NormalDist

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.base import BayesianLayer, repeated
from whvi.nn.draws import Draw
from whvi.nn.geometry import ConvGeometry, Size
from whvi.nn.parts import check_features, whole_number
from whvi.ops import normal
from whvi.posterior import GaussianPrior, kl


class Dropout(BayesianLayer):
    """Bernoulli dropout before a plain layer, in training and in evaluation alike; off only in ``mean_mode``.

    An input is kept with probability 1 - p and then divided by it, so that the mean of a draw is the plain layer. One
    mask serves an example, or all inputs of a draw.

    Args:
        p: probability of dropping an input, 0 <= p < 1.
        prior_variance: of the weights.
        draws: "example" or "batch".
    """

    def __init__(self, p: float, prior_variance: float, draws: str) -> None:
        super().__init__(draws)
        if isinstance(p, bool) or not isinstance(p, int | float):
            raise InputTypeError(f"p must be a number, got {type(p).__name__}")
        if not 0.0 <= p < 1.0:
            raise ArgumentError(f"p must be at least 0 and less than 1, got {p}")
        self.p = float(p)
        self.prior_variance = float(GaussianPrior(prior_variance).variance)
        self._threshold = NormalDist().inv_cdf(p) if p > 0.0 else -inf  # a normal falls below it with probability p

    @property
    @abstractmethod
    def layer(self) -> nn.Linear | nn.Conv2d:
        """The plain layer whose inputs are dropped."""

    @property
    def keep(self) -> float:
        """Probability of keeping an input."""
        return 1.0 - self.p

    def mask(self, draw: Draw | None, axes: int = 0) -> Tensor:
        """What multiplies the inputs, 0 or 1 / keep: (*draw.shape, 1 * axes, inputs), or (inputs) of 1 for the mean."""
        weight = self.layer.weight
        grouped = isinstance(self.layer, nn.Conv2d)
        size = self.layer.in_channels if isinstance(self.layer, nn.Conv2d) else self.layer.in_features
        if draw is None:
            return weight.new_ones(size)
        shape = draw.shape or ()
        del grouped
        kept = normal(draw.seed, 0, (*shape, *(1,) * (axes if shape else 0), size)) >= self._threshold
        return kept.to(weight.dtype) / self.keep
