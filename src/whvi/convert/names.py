"""The names that users of bayesian-torch know."""

from collections.abc import Mapping
from math import exp, log1p
from typing import Any

from torch import Tensor, nn

from whvi.annotations import checked
from whvi.caller import warn_caller
from whvi.convert.bayesianize import bayesianize
from whvi.convert.report import Report
from whvi.errors import ArgumentError
from whvi.nn import kl

_KNOWN = ("prior_mu", "prior_sigma", "posterior_mu_init", "posterior_rho_init", "type", "moped_enable", "moped_delta")
_TYPES = ("Reparameterization", "Flipout")


@checked
def dnn_to_bnn(model: nn.Module, params: Mapping[str, Any]) -> Report:
    """Replace the layers of a model in place, like the function of this name in bayesian-torch.

    Args:
        model: it is changed.
        params: ``prior_sigma`` becomes the standard deviation of the prior of g; ``posterior_rho_init`` the spread
            that a layer starts with, log(1 + exp(rho)) of the size of its means; ``moped_enable`` fits layers to their
            dense weights, with the spread ``moped_delta``. Both types are the same here: a layer draws g, not weights.

    Settings without a counterpart give a warning: a prior mean other than zero, and an initial mean, which comes
    from the layer. Every linear layer, convolution and attention is replaced, whatever its size. Unlike there, a
    report is returned.

    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> report = dnn_to_bnn(model, {"prior_sigma": 1.0, "posterior_rho_init": -3.0, "type": "Flipout"})
    >>> len(report.replaced), bool(get_kl_loss(model) > 0)
    (2, True)
    """
    unknown = sorted(set(params) - set(_KNOWN))
    if unknown:
        _warn(f"parameters without a counterpart are ignored: {', '.join(unknown)}")
    if params.get("type", "Reparameterization") not in _TYPES:
        raise ArgumentError(f"type must be one of {', '.join(map(repr, _TYPES))}, got {params['type']!r}")
    for name in ("prior_mu", "posterior_mu_init"):
        if params.get(name, 0.0) != 0.0:
            _warn(f"{name}={params[name]} is ignored: priors have mean zero, and means start as those of the layer")
    moped = bool(params.get("moped_enable", False))
    if moped:
        _warn("moped_enable is deprecated, as init='pretrained' of bayesianize is; omit it")
    spread = params.get("moped_delta", 0.5) if moped else log1p(exp(params.get("posterior_rho_init", -3.0)))
    converted = bayesianize(
        model,
        rule=lambda name, module: True,
        init="pretrained" if moped else "prior",
        inplace=True,
        relative_std=float(spread),
        prior_variance=float(params.get("prior_sigma", 1.0)) ** 2,
    )
    return converted.report


def get_kl_loss(model: nn.Module) -> Tensor:
    """KL(posterior || prior) of the whole model in nats: ``whvi.kl``, the sum over all random vectors.

    Add ``get_kl_loss(model) / N`` to a mean loss over rows, with N training rows (not the number of rows in a batch).
    """
    return kl(model)


def _warn(message: str) -> None:
    warn_caller(f"dnn_to_bnn: {message}", UserWarning)
