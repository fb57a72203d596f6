"""Adapters: a posterior around the weights of a trained model, W = W0 + sum over t of A_t diag(g_t) B_t, E[g] = 0."""

from whvi.adapters.adapt import adapt
from whvi.adapters.attention import AdaptedAttention
from whvi.adapters.merge import merge
from whvi.adapters.record import unload, use
from whvi.adapters.report import Adapted, Report, Row
from whvi.adapters.saving import load_adapter, save_adapter

__all__ = [
    "Adapted",
    "AdaptedAttention",
    "Report",
    "Row",
    "adapt",
    "load_adapter",
    "merge",
    "save_adapter",
    "unload",
    "use",
]
