"""whvi: Bayesian deep learning with Walsh-Hadamard variational inference."""

from importlib.metadata import version

from whvi import nn, ops, posterior, structure
from whvi.errors import WhviError
from whvi.nn import kl, mean_mode, sampling
from whvi.ops import fwht, kernel_info, pad

__version__ = version("whvi")
__all__ = [
    "WhviError",
    "__version__",
    "fwht",
    "kernel_info",
    "kl",
    "mean_mode",
    "nn",
    "ops",
    "pad",
    "posterior",
    "sampling",
    "structure",
]
