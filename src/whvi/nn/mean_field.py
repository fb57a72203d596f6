"""Layers with independent Gaussian weights: the usual baseline, with twice the parameters of a plain layer."""

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw, Shape
from whvi.nn.geometry import ConvGeometry, Convolutional, Size
from whvi.nn.moments import Stage, independent_rows, rows_only, with_bias
from whvi.nn.parts import (
    check_features,
    check_floating,
    in_precision_of,
    linear_each,
    plain_prior,
    start_variance,
    unit_pairs,
)
from whvi.nn.vectors import BIAS, STREAM, make_bias, shared_vectors, value_at
from whvi.ops.local import drawn, local_linear
from whvi.ops.precision import full_precision
from whvi.posterior import DiagonalGaussian, GaussianPosterior, Posterior, Prior
from whvi.posterior.base import standard_normal, wide
from whvi.posterior.gaussian import LOG_STD
from whvi.posterior.spec import Spec

_WEIGHT = 0  # stream of noise


def drawn_outputs(centre: Tensor, variance: Tensor, seed: Tensor, offset: int) -> Tensor:
    """Independent normals with a mean and a variance, like the outputs of a map with independent Gaussian weights."""
    return drawn(centre, variance, standard_normal(centre, tuple(centre.shape), seed, offset))


class MeanField(BayesianLayer):
    """A map that is linear in x, with independent Gaussian weights; a subclass defines the map.

    Law: the outputs of an "example" draw have the mean and the variance that independent weights imply.
    """

    def __init__(
        self,
        weight_shape: Shape,
        bias: bool | Spec,
        prior_variance: float | Prior,
        draws: str,
        weight_variance: float | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(draws)
        self.weight_shape = weight_shape
        check_floating(dtype)
        outputs, inputs = weight_shape[0], math.prod(weight_shape[1:])
        variance = start_variance(weight_variance, 1.0 / inputs)
        mean = torch.randn(outputs, inputs, device=device, dtype=dtype).mul_(variance**0.5)
        # The spread is a fixed part of the size of a mean. A fixed spread would add noise that grows with the inputs:
        # for 4096 of them at exp(-2) it is almost nine times the signal, and no training starts from there.
        self.weights: GaussianPosterior = DiagonalGaussian(mean, LOG_STD + 0.5 * math.log(variance))
        self.bias = make_bias(bias, outputs, mean)
        self.prior = plain_prior(prior_variance, mean)

    @abstractmethod
    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """The map with one weight for all x."""

    @abstractmethod
    def products(self, x: Tensor, weight: Tensor) -> Tensor:
        """The map with a weight for each element of the first axis of x and of ``weight``."""

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        lead = x.shape[: x.ndim - self.feature_axes]
        shape = () if draw is None else draw.shape or ()
        if draw is not None and shape and shape == tuple(lead):
            y = self._local(x, draw)
        else:
            weight = in_precision_of(x, self.weight_at(draw))
            y = self.products(x, weight) if shape else self.product(x, weight)
        if self.bias is None:
            return y
        bias = value_at(self.bias, draw, BIAS, len(lead) - len(shape))
        return y + bias.to(y.dtype)[(..., *(None,) * (self.feature_axes - 1))]

    def _local(self, x: Tensor, draw: Draw) -> Tensor:
        """Draws of the outputs instead of the weights: lower gradient variance, one random number per output."""
        centre = self.product(x, in_precision_of(x, self.weight_at()))
        with full_precision(x):  # squares leave the range of float16
            variance = self.spread(wide(x))
        return drawn_outputs(centre, variance, draw.seed, _WEIGHT * STREAM)

    def spread(self, x: Tensor) -> Tensor:
        """The variance of the outputs from independent weights, without that of the bias."""
        std = wide(self.weights.log_std).exp().reshape(self.weight_shape)
        return self.product(x.square(), std.square())

    def weight_at(self, draw: Draw | None = None) -> Tensor:
        """The weight at a draw, or its mean: (*draw.shape, *weight_shape).

        If each example has its own draw, forward draws outputs instead of weights: same distribution, but the
        draw is different.
        """
        value = value_at(self.weights, draw, _WEIGHT)
        return value.reshape(*value.shape[:-2], *self.weight_shape)

    def vectors(self) -> dict[Posterior, int]:
        """The weights and the bias."""
        return shared_vectors({self.weights: _WEIGHT, self.bias: BIAS})

    def kl_pairs(self) -> dict[nn.Module, Prior | Tensor]:
        """The weights and the bias."""
        return {self.weights: self.prior, **unit_pairs(self.bias)}


class MeanFieldLinear(MeanField):
    """y = W x + b with independent W_ij ~ N(M_ij, S_ij^2).

    Args:
        in_features, out_features: as for nn.Linear.
        bias: True for an independent Gaussian bias, False for none, or the name of a posterior ("point", ...).
        prior_variance: of the weights, or a ``Prior``; that of the bias is N(0, 1).
        draws: "example", by the local reparameterisation y = M x + sqrt(S^2 x^2) eps, or "batch".
        weight_variance: initial variance of the means; default 1 / in_features.

    Shapes: (..., in_features) -> (..., out_features).

    Law: under one fixed draw, or S of them, forward(x) == x @ weight_at(draw).T + bias_value(draw). With a draw for
    each example the outputs are drawn, not the weights: ``weight_at(draw)`` then has the same distribution, but is
    another draw.

    >>> layer = MeanFieldLinear(128, 1)
    >>> layer(torch.randn(32, 128)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 1]), 258)
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool | Spec = True,
        *,
        prior_variance: float | Prior = 1.0,
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (whole_number("out_features", out_features), whole_number("in_features", in_features))
        super().__init__(shape, bias, prior_variance, draws, weight_variance, device, dtype)
        self.in_features, self.out_features = in_features, out_features

    def evaluate(self, x: Tensor, draw: Draw | None) -> Tensor:
        """The layer at a draw or at its mean."""
        weights, bias = self.weights, self.bias
        if draw is None or not draw.shape or draw.shape != tuple(x.shape[:-1]):
            return super().evaluate(x, draw)
        if type(weights) is not DiagonalGaussian or type(bias) is not DiagonalGaussian:
            return super().evaluate(x, draw)
        if not x.dtype == weights.dtype == bias.dtype == wide(x).dtype:
            return super().evaluate(x, draw)
        laws = (weights.mean, weights.log_std, bias.mean, bias.log_std)
        return local_linear(x, *laws, draw.seed, _WEIGHT * STREAM, BIAS * STREAM)

    def moments(self, mean: Tensor, variance: Tensor | None) -> Stage:
        """Exact: Var[y] = S^2 (m^2 + v) + M^2 v."""
        rows_only(mean)
        spread = self.spread(mean)
        if variance is not None:
            spread = spread + variance @ self.weights.variance.mT
        return with_bias(independent_rows(mean, variance, self.weight_at(), spread), self.bias)

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """(..., in) and (out, in) -> (..., out)."""
        return linear(x, weight)

    def products(self, x: Tensor, weight: Tensor) -> Tensor:
        """(S, ..., in) and (S, out, in) -> (S, ..., out)."""
        return linear_each(x, weight)

    def check(self, x: Tensor) -> None:
        """The last axis must be ``in_features``."""
        check_features(x, self.in_features)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.in_features}, {self.out_features}, draws={self.draws!r}"


class MeanFieldConv2d(Convolutional, MeanField):
    """A convolution with independent Gaussian weights.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode: as for nn.Conv2d.
        bias, prior_variance, draws: as for ``MeanFieldLinear``.
        weight_variance: initial variance of the means; default 1 / (weights that enter an output).

    Shapes: (..., in_channels, H, W) -> (..., out_channels, H', W').

    With a draw for each example, y = conv(x, M) + sqrt(conv(x^2, S^2)) eps, and eps is independent at each position:
    every output has exactly the mean and variance that the weights imply, but outputs that share weights are drawn
    independently. Fixed draws and ``draws="batch"`` draw the weights themselves.

    Law: under one fixed draw, or S of them, forward(x) == conv2d(x, weight_at(draw), bias_value(draw)).

    >>> layer = MeanFieldConv2d(3, 8, 3, padding="same")
    >>> layer(torch.randn(32, 3, 10, 10)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([32, 8, 10, 10]), 448)
    """

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool | Spec = True,
        padding_mode: str = "zeros",
        *,
        prior_variance: float | Prior = 1.0,
        draws: str = "example",
        weight_variance: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        geometry = ConvGeometry(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode)
        super().__init__(geometry.weight_shape, bias, prior_variance, draws, weight_variance, device, dtype)
        self.geometry = geometry

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """(..., C, H, W) and a kernel -> (..., out, H', W')."""
        return self.geometry.convolve(x, weight)

    def products(self, x: Tensor, weight: Tensor) -> Tensor:
        """(S, ..., C, H, W) and S kernels -> (S, ..., out, H', W')."""
        return self.geometry.convolve_each(x, weight)

    def check(self, x: Tensor) -> None:
        """x must be (..., in_channels, H, W), at least as large as the kernel."""
        self.geometry.check(x)

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.geometry.extra_repr()}, draws={self.draws!r}"
