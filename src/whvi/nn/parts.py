"""Small helpers of all layers."""

from math import prod

import torch
from torch import Tensor, nn

from whvi.arguments import positive_number
from whvi.errors import ArgumentError, DtypeError, ShapeError
from whvi.posterior import ConstantWeightVariance, GaussianPrior, Point, Posterior, Prior
from whvi.rows import Inputs, tensors

UNIT_PRIOR = GaussianPrior(1.0)
BATCH_NORMS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d),
)
"""Modules that couple the rows of a batch."""
"""Of biases, and of scales that are inferred. It has no state, so that all layers can share it."""


def check_features(x: Tensor, in_features: int) -> None:
    """Raise ShapeError unless x is (..., in_features)."""
    if x.ndim == 0 or x.shape[-1] != in_features:
        raise ShapeError(f"x has shape {tuple(x.shape)}, but its last axis must be in_features = {in_features}")


def start_variance(weight_variance: float | None, default: float) -> float:
    """``weight_variance`` if it is given, otherwise the default."""
    if weight_variance is None:
        return default
    return positive_number("weight_variance", weight_variance)


def make_prior(prior_variance: float | Prior, like: Tensor) -> Prior:
    """The prior itself, or N(0, prior_variance), with the dtype and the device of ``like``."""
    prior = prior_variance if isinstance(prior_variance, Prior) else GaussianPrior(prior_variance)
    return prior.to(like) if isinstance(prior, GaussianPrior) and prior.learned else prior


def plain_prior(prior_variance: float | Prior, like: Tensor) -> Prior:
    """A prior for unstructured weights."""
    if isinstance(prior_variance, ConstantWeightVariance):
        raise ArgumentError("ConstantWeightVariance is for structured weights; use a number or a GaussianPrior here")
    return make_prior(prior_variance, like)


def check_floating(dtype: torch.dtype | None) -> None:
    """Raise DtypeError for a dtype that layers cannot have."""
    if dtype is not None and not dtype.is_floating_point:
        raise DtypeError(f"dtype must be a real floating-point type, got {dtype}")


def check_precision(x: Tensor, dtype: torch.dtype) -> None:
    """Raise DtypeError if only one of x and a layer is float64."""
    if (x.dtype == torch.float64) != (dtype == torch.float64):
        raise DtypeError(
            f"x has dtype {x.dtype}, but the layer has {dtype}; convert one of them, as in x.to({dtype}) "
            f"or layer.to({x.dtype})"
        )


def check_model_precision(x: Inputs, model: nn.Module) -> None:
    """``check_precision`` for all layers of a model, where its parameters have one dtype, and what of x is floating.

    >>> try:
    ...     check_model_precision(torch.zeros(1, 2, dtype=torch.float64), nn.Linear(2, 1))
    ... except DtypeError as error:
    ...     print(str(error).split(";")[0])
    x has dtype torch.float64, but the layer has torch.float32
    """
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if len(dtypes) == 1:
        (dtype,) = dtypes
        for tensor in tensors(x):
            if tensor.is_floating_point():
                check_precision(tensor, dtype)


def unit_pairs(*vectors: nn.Module | None) -> dict[nn.Module, Prior | Tensor]:
    """A standard normal prior for each vector that is not None or a point estimate."""
    return {vector: UNIT_PRIOR for vector in vectors if isinstance(vector, Posterior) and not isinstance(vector, Point)}


def in_precision_of(x: Tensor, value: Tensor) -> Tensor:
    """Parameters in the dtype of x, where one of the two is in half precision; else the dtypes must be equal."""
    if value.dtype == x.dtype:
        return value
    check_precision(x, value.dtype)
    return value.to(x.dtype)


def linear_each(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map for each element of the first axis: (S, ..., in), (S, out, in) and (S, out) -> (S, ..., out)."""
    rows = x.reshape(x.shape[0], prod(x.shape[1:-1]), x.shape[-1])
    y = torch.bmm(rows, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(-2), rows, weight.mT)
    return y.reshape(*x.shape[:-1], weight.shape[-2])
