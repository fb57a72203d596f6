"""Inference: the bound, the algorithms and the training loop."""

from whvi.inference.algorithm import Algorithm, Members, Run, Terms
from whvi.inference.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    Every,
    History,
    Moment,
    Progress,
    TensorBoard,
)
from whvi.inference.diagnostics import effective_sample_size, split_rhat
from whvi.inference.distributed import Distributed
from whvi.inference.elbo import Elbo, elbo
from whvi.inference.ensemble import deep_ensemble, fit_ensemble, member_seeds
from whvi.inference.fit import Fit, fit, fit_replicas
from whvi.inference.map import MAP
from whvi.inference.schedules import (
    Constant,
    CosineDecay,
    CyclicWarmup,
    LinearWarmup,
    OneCycle,
    PowerDecay,
    PowerDecayLR,
    Scaled,
)
from whvi.inference.sghmc import SGHMC
from whvi.inference.streams import posterior_as_prior
from whvi.inference.svi import SVI
from whvi.moved import moved_names

__all__ = [
    "MAP",
    "SGHMC",
    "SVI",
    "Algorithm",
    "Callback",
    "Checkpoint",
    "Constant",
    "CosineDecay",
    "CyclicWarmup",
    "Distributed",
    "EarlyStopping",
    "Elbo",
    "Every",
    "Fit",
    "History",
    "LinearWarmup",
    "Members",
    "Moment",
    "OneCycle",
    "PowerDecay",
    "PowerDecayLR",
    "Progress",
    "Run",
    "Scaled",
    "TensorBoard",
    "Terms",
    "deep_ensemble",
    "effective_sample_size",
    "elbo",
    "fit",
    "fit_ensemble",
    "fit_replicas",
    "member_seeds",
    "posterior_as_prior",
    "split_rhat",
]
__getattr__ = moved_names(__name__, {"NoisyKFAC": "whvi_paper.baselines"})
