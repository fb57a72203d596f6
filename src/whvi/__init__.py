"""whvi: Bayesian deep learning with Walsh-Hadamard variational inference."""

from importlib.metadata import version

from whvi import ops
from whvi.errors import WhviError
from whvi.ops import fwht, kernel_info, pad

__version__ = version("whvi")
__all__ = ["WhviError", "__version__", "fwht", "kernel_info", "ops", "pad"]
