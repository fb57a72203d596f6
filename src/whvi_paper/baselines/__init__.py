"""What the paper compares WHVI with and nothing else needs: layers of other posteriors."""

from whvi_paper.baselines.low_rank import LowRankMCDropoutConv2d
from whvi_paper.baselines.tensor import TensorFactorisedLinear

__all__ = ["LowRankMCDropoutConv2d", "TensorFactorisedLinear"]
