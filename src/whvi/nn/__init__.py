"""Bayesian layers: a forward pass that draws, a KL that is summed."""

from whvi.nn.base import BayesianLayer
from whvi.nn.conv import WHVIConv2d
from whvi.nn.draws import Draw
from whvi.nn.dropout import LowRankMCDropoutConv2d, MCDropout
from whvi.nn.full_covariance import FullCovarianceLinear
from whvi.nn.linear import WHVIColumn, WHVILinear
from whvi.nn.matrix_gaussian import MatrixGaussianConv2d, MatrixGaussianLinear
from whvi.nn.mean_field import MeanFieldConv2d, MeanFieldLinear
from whvi.nn.model import kl, mean_mode, sampling
from whvi.nn.tensor import TensorFactorisedLinear

__all__ = [
    "BayesianLayer",
    "Draw",
    "FullCovarianceLinear",
    "LowRankMCDropoutConv2d",
    "MCDropout",
    "MatrixGaussianConv2d",
    "MatrixGaussianLinear",
    "MeanFieldConv2d",
    "MeanFieldLinear",
    "TensorFactorisedLinear",
    "WHVIColumn",
    "WHVIConv2d",
    "WHVILinear",
    "kl",
    "mean_mode",
    "sampling",
]
