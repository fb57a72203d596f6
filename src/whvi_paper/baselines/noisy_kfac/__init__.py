"""Noisy K-FAC: settings and run (``algorithm``), of many models at once (``stacked``), and what their steps do."""

from whvi_paper.baselines.noisy_kfac.algorithm import NoisyKFAC

__all__ = ["NoisyKFAC"]
