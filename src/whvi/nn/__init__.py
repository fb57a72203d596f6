"""Bayesian layers: each forward pass draws weights, and KL terms are summed."""

from whvi.moved import moved_names
from whvi.nn.base import BayesianLayer
from whvi.nn.conv import WHVIConv2d
from whvi.nn.conv1d import WHVIConv1d, WHVIConvTranspose1d
from whvi.nn.conv_transpose import WHVIConvTranspose2d
from whvi.nn.draws import Draw
from whvi.nn.dropout import MCDropout
from whvi.nn.full_covariance import FullCovarianceLinear
from whvi.nn.linear import WHVIColumn, WHVILinear
from whvi.nn.mean_field import MeanFieldConv2d, MeanFieldLinear
from whvi.nn.model import kl, mean_mode, sampling
from whvi.nn.outputs import WithOutput
from whvi.nn.recurrent import WHVIGRU, WHVILSTM
from whvi.nn.together import share_g

__all__ = [
    "WHVIGRU",
    "WHVILSTM",
    "BayesianLayer",
    "Draw",
    "FullCovarianceLinear",
    "MCDropout",
    "MeanFieldConv2d",
    "MeanFieldLinear",
    "WHVIColumn",
    "WHVIConv1d",
    "WHVIConv2d",
    "WHVIConvTranspose1d",
    "WHVIConvTranspose2d",
    "WHVILinear",
    "WithOutput",
    "kl",
    "mean_mode",
    "sampling",
    "share_g",
]
__getattr__ = moved_names(
    __name__,
    dict.fromkeys(
        ("LowRankMCDropoutConv2d", "MatrixGaussianConv2d", "MatrixGaussianLinear", "TensorFactorisedLinear"),
        "whvi_paper.baselines",
    ),
)
