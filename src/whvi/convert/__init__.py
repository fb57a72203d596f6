"""Convert dense models to Bayesian ones, and back."""

from whvi.convert.attention import BayesianAttention
from whvi.convert.bayesianize import bayesianize
from whvi.convert.dense import to_dense
from whvi.convert.names import dnn_to_bnn, get_kl_loss
from whvi.convert.report import Converted, Report, Row
from whvi.convert.saving import load_model, save_model

__all__ = [
    "BayesianAttention",
    "Converted",
    "Report",
    "Row",
    "bayesianize",
    "dnn_to_bnn",
    "get_kl_loss",
    "load_model",
    "save_model",
    "to_dense",
]
