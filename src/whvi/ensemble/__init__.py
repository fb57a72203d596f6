"""Several networks as one."""

from whvi.ensemble.networks import Ensemble

__all__ = ["Ensemble"]
