"""whvi: Bayesian deep learning with Walsh-Hadamard variational inference."""

from importlib.metadata import version

from whvi import acquire, adapters, convert, inference, likelihoods, models, nn, ops, posterior, predictive, structure
from whvi.adapters import adapt, load_adapter, save_adapter
from whvi.convert import bayesianize, load_model, save_model, to_dense
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
    "adapt",
    "adapters",
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
    "load_adapter",
    "load_model",
    "mean_mode",
    "models",
    "nn",
    "ops",
    "pad",
    "posterior",
    "predict",
    "predictive",
    "sampling",
    "save_adapter",
    "save_model",
    "share_g",
    "structure",
    "to_dense",
]
