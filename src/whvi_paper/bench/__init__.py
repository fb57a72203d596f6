"""What ``whvi bench`` runs: the speed of the transform, its chain and its noise, as ratios measured in one process."""

from whvi_paper.bench.suite import run

__all__ = ["run"]
