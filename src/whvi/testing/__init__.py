"""Contract tests for users, and a problem with a known evidence to test bounds.

A new structure, posterior or layer inherits its tests: subclass the contract in a test file and define the fixture it
names. The contracts import no test runner; pytest finds them through the subclass.
"""

from whvi.testing.compare import assert_close, assert_estimate, assert_moments, assert_uncorrelated, perturb
from whvi.testing.conjugate import GaussianLaw, LinearGaussian, design_matrix, summed_design
from whvi.testing.layer import LayerContract
from whvi.testing.pairs import cover_pairs
from whvi.testing.posterior import DensePrior, PosteriorContract, PriorCase
from whvi.testing.structure import MatrixCase, StructureContract

__all__ = [
    "DensePrior",
    "GaussianLaw",
    "LayerContract",
    "LinearGaussian",
    "MatrixCase",
    "PosteriorContract",
    "PriorCase",
    "StructureContract",
    "assert_close",
    "assert_estimate",
    "assert_moments",
    "assert_uncorrelated",
    "cover_pairs",
    "design_matrix",
    "perturb",
    "summed_design",
]
