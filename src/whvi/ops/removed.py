"""What version 0.1 had besides: in plain torch, with a DeprecationWarning, for one release."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor


def energy(
    means: Sequence[Tensor],
    log_stds: Sequence[Tensor],
    square: float,
    exponential: float,
    linear: float,
    constant: float = 0.0,
) -> Tensor:
    """Sum of ``square * m^2 + exponential * exp(2 l) + linear * l + constant`` over the elements of pairs (m, l)."""
    warnings.warn(
        "whvi.ops.energy is a sum in plain torch now and will be removed; the KL of a model is whvi.kl(model)",
        DeprecationWarning,
        stacklevel=2,
    )
    parts = [
        (square * mean.square() + exponential * (2.0 * log_std).exp() + linear * log_std + constant).sum()
        for mean, log_std in zip(means, log_stds, strict=True)
    ]
    return torch.stack(parts).sum() if parts else torch.zeros(())
