"""Inference: the bound, the algorithms, the loop that runs them."""

from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.diagnostics import effective_sample_size, split_rhat
from whvi.inference.elbo import Elbo, elbo
from whvi.inference.fit import Fit, deep_ensemble, fit, fit_replicas
from whvi.inference.history import History
from whvi.inference.loop import Moment
from whvi.inference.map import MAP
from whvi.inference.schedules import (
    Constant,
    CosineDecay,
    CyclicWarmup,
    LinearWarmup,
    OneCycle,
    PowerDecay,
    PowerDecayLR,
)
from whvi.inference.sghmc import SGHMC
from whvi.inference.stopping import EarlyStopping
from whvi.inference.svi import SVI
from whvi.moved import moved_names

__all__ = [
    "MAP",
    "SGHMC",
    "SVI",
    "Algorithm",
    "Constant",
    "CosineDecay",
    "CyclicWarmup",
    "EarlyStopping",
    "Elbo",
    "Fit",
    "History",
    "LinearWarmup",
    "Moment",
    "OneCycle",
    "PowerDecay",
    "PowerDecayLR",
    "Run",
    "Terms",
    "deep_ensemble",
    "effective_sample_size",
    "elbo",
    "fit",
    "fit_replicas",
    "split_rhat",
]
__getattr__ = moved_names(__name__, {"NoisyKFAC": "whvi_paper.baselines"})
