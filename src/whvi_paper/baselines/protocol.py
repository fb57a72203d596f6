"""Layers of the paper's protocol, to the letter: H is not normalised, and the prior of g has a variance of 1e-5.

The paper does not state initial values, nor the prior of plain weights. Both are as in the authors' public
layers, ``VariationalFastfoodLinear`` and ``VariationalLinear`` of https://github.com/srossi93/vardl.
"""

from math import log

from torch import nn

from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.nn.draws import Draw
from whvi.structure import StructuredMatrix

LAMBDA = 1e-5
"""The paper's prior variance of g, "to obtain sensible variances in the output layer"."""


class ProtocolWHVI(WHVILinear):
    """W = S1 H diag(g) H S2 with H of entries 1 and -1. S1, S2 start from U(-b, b), g at N(0, v), b^2 / 3 = v = 2 / D.

    Args:
        in_features, out_features: as for nn.Linear.
        he: initialise like our layers instead, g at the size of its prior and W with He's variance.

    Shapes: (..., in_features) -> (..., out_features).

    Law: W is D times that of a ``WHVILinear`` of the same g and scales.

    >>> layer = ProtocolWHVI(2, 2)
    >>> _ = [nn.init.ones_(part) for part in (layer.g.mean, *layer.scales.parameters())]
    >>> layer.weight_at().tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def __init__(self, in_features: int, out_features: int, *, he: bool = False) -> None:
        super().__init__(in_features, out_features, pad_to="power_of_two", prior_variance=LAMBDA)
        if he:
            for scale in self.scales.parameters():
                scale.data /= self.plan.size**0.5  # which H has here, twice
            return
        nn.init.zeros_(self.g.get_parameter("mean"))
        nn.init.constant_(self.g.get_parameter("log_std"), 0.5 * log(2.0 / self.plan.size))
        for scale in self.scales.parameters():
            nn.init.uniform_(scale, -(bound := (6.0 / self.plan.size) ** 0.5), bound)

    def matrix(self, draw: Draw | None, axes: int = 0, positions: int = 0) -> StructuredMatrix:
        """W with its scales at a draw; the first has the factor that H lacks here, sqrt(D) twice."""
        found = super().matrix(draw, axes, positions)
        first, second = found.scales
        scales = [self.plan.size * first, second]
        return StructuredMatrix(found.structure, found.plan, scales, shared=found.shared)


class ProtocolMeanField(MeanFieldLinear):
    """Independent weights, initially N(0, exp(-4)), whatever their number, with the prior N(0, 1 / in_features).

    Shapes: (..., in_features) -> (..., out_features).

    >>> layer = ProtocolMeanField(16, 1)  # the variance is 0.3 of that of the prior
    >>> round(float(layer.weights.kl(layer.prior).detach()), 2)
    4.16
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features, prior_variance=1.0 / in_features)
        nn.init.zeros_(self.weights.get_parameter("mean"))
        nn.init.constant_(self.weights.get_parameter("log_std"), -2.0)
