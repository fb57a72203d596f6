"""Layers whose weights are a matrix-variate Gaussian: correlated along the inputs and along the outputs."""

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.arguments import whole_number
from whvi.errors import InputTypeError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw, Shape
from whvi.nn.parts import check_features, check_floating, in_precision_of, linear_each, start_variance
from whvi.nn.vectors import shape_of
from whvi.ops.precision import full_precision
from whvi.posterior import GaussianPrior, Prior, kl
from whvi.posterior.base import standard_normal, wide
from whvi.posterior.gaussian import LOG_STD


class MatrixGaussian(BayesianLayer):
    """A linear map with [W b] = M + L E R^T, E standard normal: row covariance L L^T, column covariance R R^T.

    The mean M is a parameter. The roots L and R are buffers: ``whvi_paper.baselines.NoisyKFAC`` sets them from the
    second moments of inputs and of gradients of outputs, which it keeps here too; no gradient reaches them. A
    convolution with groups has roots for each group, so that all four have an axis of groups in front.

    Law: Cov([W b]_ij, [W b]_kl) == (L L^T)_ik (R R^T)_jl within a group, and 0 across groups.
    """

    output_root: Tensor
    """L, triangular with a positive diagonal: (groups, outputs / groups, outputs / groups)."""
    input_root: Tensor
    """R, as L: (groups, columns, columns), where the last column of [W b] is the bias."""
    output_moment: Tensor
    """E[g g^T] for gradients g of an output, as L; zero before training."""
    input_moment: Tensor
    """E[a a^T] for inputs a with a one for the bias, as R; zero before training."""

    def __init__(
        self,
        groups: int,
        weight_shape: Shape,
        bias: bool,
        prior_variance: float,
        draws: str,
        weight_variance: float | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(draws)
        if not isinstance(bias, bool):
            raise InputTypeError(f"bias must be True or False, got {bias!r}: it is a column of the weight here")
        check_floating(dtype)
        self.groups, self.weight_shape, self.bias, self.has_bias = groups, weight_shape, None, bias
        self.prior_variance = float(GaussianPrior(prior_variance).variance)
        outputs, inputs = weight_shape[0], math.prod(weight_shape[1:])
        variance = start_variance(weight_variance, 1.0 / inputs)
        mean = torch.randn(outputs, inputs, device=device, dtype=dtype).mul_(variance**0.5)
        self.mean = nn.Parameter(torch.cat((mean, mean.new_zeros(outputs, 1)), -1) if bias else mean)
        # A fixed part of the size of a weight, as for mean-field layers and for the same reason.
        spread = math.exp(LOG_STD) * variance**0.5
        for name, size, root in (("output", outputs // groups, spread), ("input", inputs + bias, 1.0)):
            unit = torch.eye(size, device=device, dtype=dtype).repeat(groups, 1, 1)
            self.register_buffer(f"{name}_root", root * unit)
            self.register_buffer(f"{name}_moment", torch.zeros_like(unit))

    @abstractmethod
    def apply_one(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The map with one weight for all x."""

    @abstractmethod
    def apply_several(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The map with a weight and a bias for each element of the first axis of x, which is also their first."""

    @abstractmethod
    def apply_each(self, x: Tensor, draw: Draw) -> Tensor:
        """The map with a draw for each example."""

    @abstractmethod
    def input_rows(self, x: Tensor) -> Tensor:
        """All vectors that [W b] is multiplied with in a pass: (groups, rows, columns)."""

    @abstractmethod
    def output_rows(self, y: Tensor) -> Tensor:
        """The products with them, in the same order, from the output of a pass: (groups, rows, outputs / groups)."""

    def with_ones(self, rows: Tensor) -> Tensor:
        """Inputs with the one that multiplies the bias behind them, if there is a bias."""
        return torch.cat((rows, torch.ones_like(rows[..., :1])), -1) if self.has_bias else rows

    def matrix(self, draw: Draw | None = None) -> Tensor:
        """[W b] at a draw, or its mean: (*draw.shape, outputs, columns)."""
        mean, left, right = wide(self.mean), wide(self.output_root), wide(self.input_root)
        if draw is None:
            return mean
        shape = (*shape_of(draw), self.groups, left.shape[-1], right.shape[-1])
        with full_precision(mean):
            spread = left @ standard_normal(mean, shape, draw.seed, 0) @ right.mT
        return mean + spread.flatten(-3, -2)

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        shape = () if draw is None else shape_of(draw)
        if draw is not None and shape and shape == tuple(x.shape[: x.ndim - self.feature_axes]):
            return self.apply_each(x, draw)
        weight, bias = self.split(in_precision_of(x, self.matrix(draw)))
        return self.apply_several(x, weight, bias) if shape else self.apply_one(x, weight, bias)

    def split(self, matrix: Tensor) -> tuple[Tensor, Tensor | None]:
        """[W b] as a weight and a bias: (..., outputs, columns) -> (..., *weight_shape), (..., outputs)."""
        inputs = math.prod(self.weight_shape[1:])
        weight = matrix[..., :inputs].reshape(*matrix.shape[:-2], *self.weight_shape)
        return weight, matrix[..., inputs] if self.has_bias else None

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The weight at a draw, or its mean: (*draw.shape, *weight_shape)."""
        return self.split(self.matrix(draw))[0]

    def bias_value(self, draw: Draw | None = None) -> Tensor | None:
        """The bias at a draw, or its mean: (*draw.shape, outputs)."""
        return self.split(self.matrix(draw))[1]

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """Weight and bias together, to N(0, prior_variance)."""
        roots = wide(self.output_root), wide(self.input_root)
        mean = wide(self.mean).unflatten(0, (self.groups, -1))
        return {self: kl.matrix_gaussian(mean, *roots, self.prior_variance)}


class MatrixGaussianLinear(MatrixGaussian):
    """y = W x + b with [W b] matrix-variate Gaussian.

    Args:
        in_features, out_features: as for nn.Linear.
        bias: whether to add one; it is a column of the matrix, with the same prior.
        prior_variance: of weights and bias.
        draws: "batch", or "example" by the distribution of the output: given x it is M x + |R^T x| L z, z normal.
        weight_variance: initial variance of the means; default 1 / in_features.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under one fixed draw, or S of them, forward(x) == x @ weight_at(draw).T + bias_value(draw). With a draw for
    each example the outputs are drawn, not the weights: ``weight_at(draw)`` then has the same distribution, but is
    another draw.

    >>> layer = MatrixGaussianLinear(128, 1)
    >>> layer(torch.randn(32, 128)).shape, layer.mean.shape, layer.input_root.shape
    (torch.Size([32, 1]), torch.Size([1, 129]), torch.Size([1, 129, 129]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        prior_variance: float = 1.0,
        draws: str = "batch",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (whole_number("out_features", out_features), whole_number("in_features", in_features))
        super().__init__(1, shape, bias, prior_variance, draws, weight_variance, device, dtype)
        self.in_features, self.out_features = in_features, out_features

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean. For few rows L (E (R^T x)) is cheaper than the matrix L E R^T."""
        shape = () if draw is None else shape_of(draw)
        rows = math.prod(x.shape[len(shape) : -1])
        out, columns = self.mean.shape
        few = rows * (out**2 + out * columns + columns**2) < out * columns * (out + columns)
        if draw is None or not few or (shape and shape == tuple(x.shape[:-1])):
            return super().evaluate(x, draw)
        centre = self._centre(x)
        with full_precision(x):
            noise = standard_normal(x, (*shape, out, columns), draw.seed, 0)
            seen = self._seen(x).reshape(*shape, rows, columns)
            spread = seen @ noise.mT @ wide(self.output_root[0]).mT
        return centre + spread.reshape(centre.shape).to(centre.dtype)

    def apply_one(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(..., in) and (out, in) -> (..., out)."""
        return linear(x, weight, bias)

    def apply_several(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """(S, ..., in) and (S, out, in) -> (S, ..., out)."""
        return linear_each(x, weight, bias)

    def apply_each(self, x: Tensor, draw: Draw) -> Tensor:
        """One normal vector for each example in place of a matrix: (..., in) -> (..., out)."""
        centre = self._centre(x)
        with full_precision(x):
            noise = standard_normal(x, tuple(centre.shape), draw.seed, 0)
            length = torch.linalg.vector_norm(self._seen(x), dim=-1, keepdim=True)
            spread: Tensor = linear(noise, wide(self.output_root[0])) * length
        return centre + spread.to(centre.dtype)

    def _centre(self, x: Tensor) -> Tensor:
        """M x: (..., in) -> (..., out)."""
        return self.apply_one(x, *self.split(in_precision_of(x, self.matrix())))

    def _seen(self, x: Tensor) -> Tensor:
        """R^T x, with the one of the bias: (..., in) -> (..., columns)."""
        right = wide(self.input_root[0])
        return linear(wide(x), right[: self.in_features].mT, right[-1] if self.has_bias else None)

    def input_rows(self, x: Tensor) -> Tensor:
        """(..., in) -> (1, rows, columns)."""
        return self.with_ones(x.reshape(1, -1, self.in_features))

    def output_rows(self, y: Tensor) -> Tensor:
        """(..., out) -> (1, rows, out)."""
        return y.reshape(1, -1, self.out_features)

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        check_features(x, self.in_features)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.in_features}, {self.out_features}, draws={self.draws!r}"
