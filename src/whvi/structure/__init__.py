"""Structured matrices W(g) = A diag(g) B, and the fixed operators they descend from."""

from whvi.ops.noise import KernelNoise
from whvi.structure.matrix import StructuredMatrix
from whvi.structure.plan import Plan, make_plan
from whvi.structure.random import Fastfood, OrthogonalRandomFeatures, RandomOperator
from whvi.structure.spec import Structure, parse

__all__ = [
    "Fastfood",
    "KernelNoise",
    "OrthogonalRandomFeatures",
    "Plan",
    "RandomOperator",
    "Structure",
    "StructuredMatrix",
    "make_plan",
    "parse",
]
