"""Structured matrices W(g) = A diag(g) B, and related fixed random operators."""

from whvi.ops.noise import KernelNoise
from whvi.structure.matrix import StructuredMatrix
from whvi.structure.plan import Plan, make_plan
from whvi.structure.random import Fastfood, OrthogonalRandomFeatures, RandomOperator, random_permutation
from whvi.structure.spec import Permutation, Structure, parse

__all__ = [
    "Fastfood",
    "KernelNoise",
    "OrthogonalRandomFeatures",
    "Permutation",
    "Plan",
    "RandomOperator",
    "Structure",
    "StructuredMatrix",
    "make_plan",
    "parse",
    "random_permutation",
]
