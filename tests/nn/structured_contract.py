"""The contract of layers for structured ones, linear and convolutional."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear

from whvi.nn import BayesianLayer, WHVIConv2d, WHVILinear
from whvi.nn.structured import StructuredLayer
from whvi.testing import LayerContract


class StructuredContract(LayerContract):
    """``layer`` is a linear map, or a convolution of two channels with a stride of (1, 2)."""

    @pytest.fixture
    def inputs(self, layer: StructuredLayer) -> Tensor:
        if isinstance(layer, WHVIConv2d):
            return torch.randn(6, 2, 3, 3, dtype=torch.float64)
        assert isinstance(layer, WHVILinear)
        return torch.randn(6, layer.in_features, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if isinstance(layer, WHVIConv2d):
            return conv2d(x, weight, bias, stride=(1, 2), groups=layer.groups)
        return linear(x, weight, bias)
