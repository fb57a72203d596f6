"""Distributions of a vector: posteriors, priors, and all formulas for the KL between them."""

from whvi.moved import moved_names
from whvi.posterior.base import Posterior
from whvi.posterior.flow import PlanarFlow
from whvi.posterior.gaussian import DiagonalGaussian, FullGaussian, GaussianPosterior, LowRankGaussian
from whvi.posterior.joint import JointPosterior
from whvi.posterior.point import Point
from whvi.posterior.prior import ConstantWeightVariance, GaussianPrior, Prior
from whvi.posterior.spec import make_posterior
from whvi.posterior.total import Pairs, each_kl, total_kl

__all__ = [
    "ConstantWeightVariance",
    "DiagonalGaussian",
    "FullGaussian",
    "GaussianPosterior",
    "GaussianPrior",
    "JointPosterior",
    "LowRankGaussian",
    "Pairs",
    "PlanarFlow",
    "Point",
    "Posterior",
    "Prior",
    "each_kl",
    "make_posterior",
    "total_kl",
]

__getattr__ = moved_names(__name__, {"Gaussian": "whvi.posterior:GaussianPosterior"})  # a likelihood has that name
