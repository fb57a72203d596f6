"""whvi: Bayesian deep learning with Walsh-Hadamard variational inference."""

from importlib.metadata import version

from whvi import acquire, convert, inference, likelihoods, models, nn, ops, posterior, predictive, structure
from whvi.convert import bayesianize, to_dense
from whvi.errors import WhviError
from whvi.inference import elbo, fit
from whvi.nn import kl, mean_mode, sampling, share_g
from whvi.ops import fwht, hadamard_transform, kernel_info, pad
from whvi.predictive import predict

__version__ = version("whvi")
__all__ = [
    "WhviError",
    "__version__",
    "acquire",
    "bayesianize",
    "convert",
    "elbo",
    "fit",
    "fwht",
    "hadamard_transform",
    "inference",
    "kernel_info",
    "kl",
    "likelihoods",
    "mean_mode",
    "models",
    "nn",
    "ops",
    "pad",
    "posterior",
    "predict",
    "predictive",
    "sampling",
    "share_g",
    "structure",
    "to_dense",
]
