"""Baselines of the paper: layers with other posteriors, and noisy K-FAC."""

from whvi_paper.baselines.gaussian_factors import GaussianFactorsLinear
from whvi_paper.baselines.low_rank import LowRankMCDropoutConv2d
from whvi_paper.baselines.matrix_gaussian import MatrixGaussianLinear
from whvi_paper.baselines.matrix_gaussian_conv import MatrixGaussianConv2d
from whvi_paper.baselines.noisy_kfac import NoisyKFAC
from whvi_paper.baselines.protocol import ProtocolMeanField, ProtocolWHVI
from whvi_paper.baselines.tensor import TensorFactorisedLinear

__all__ = [
    "GaussianFactorsLinear",
    "LowRankMCDropoutConv2d",
    "MatrixGaussianConv2d",
    "MatrixGaussianLinear",
    "NoisyKFAC",
    "ProtocolMeanField",
    "ProtocolWHVI",
    "TensorFactorisedLinear",
]
