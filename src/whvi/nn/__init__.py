"""Bayesian layers: a forward pass that draws, a KL that is summed."""

from whvi.nn.base import BayesianLayer
from whvi.nn.conv import WHVIConv2d
from whvi.nn.draws import Draw
from whvi.nn.linear import WHVIColumn, WHVILinear
from whvi.nn.model import kl, mean_mode, sampling

__all__ = ["BayesianLayer", "Draw", "WHVIColumn", "WHVIConv2d", "WHVILinear", "kl", "mean_mode", "sampling"]
