"""Laws of a vector: posteriors, priors, and the only home of the formulas for the KL divergence between them."""

from whvi.posterior.base import Posterior
from whvi.posterior.flow import PlanarFlow
from whvi.posterior.gaussian import DiagonalGaussian, FullGaussian, Gaussian, LowRankGaussian
from whvi.posterior.point import Point
from whvi.posterior.prior import ConstantWeightVariance, GaussianPrior, Prior
from whvi.posterior.spec import make_posterior
from whvi.posterior.total import Pairs, each_kl, total_kl

__all__ = [
    "ConstantWeightVariance",
    "DiagonalGaussian",
    "FullGaussian",
    "Gaussian",
    "GaussianPrior",
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
