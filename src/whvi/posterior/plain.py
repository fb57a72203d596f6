"""Priors as JSON, for saved recipes of layers."""

from typing import Any

from whvi.errors import CheckpointError, UnsupportedError
from whvi.posterior.prior import ConstantWeightVariance, GaussianPrior, Prior


def plain_prior(prior: float | Prior) -> Any:
    """A prior as layers take it, as JSON.

    >>> prior_from(plain_prior(GaussianPrior(2.0, learned=True)))
    GaussianPrior(variance=2, learned)
    """
    if not isinstance(prior, Prior):
        return float(prior)
    if type(prior) is GaussianPrior:
        return {"kind": "gaussian", "variance": prior.initial_variance, "learned": prior.learned}
    if type(prior) is ConstantWeightVariance:
        return {"kind": "constant weight variance", "variance": prior.weight_variance}
    raise UnsupportedError(f"a prior of the class {type(prior).__name__} cannot be saved; use one of whvi.posterior")


def prior_from(value: Any) -> float | Prior:
    """The prior that ``plain_prior`` wrote."""
    if isinstance(value, float | int):
        return value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "gaussian":
        return GaussianPrior(value["variance"], learned=value["learned"])
    if kind == "constant weight variance":
        return ConstantWeightVariance(value["variance"])
    raise CheckpointError(f"{value!r:.80} is not a prior that whvi saved")
