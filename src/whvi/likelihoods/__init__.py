"""Likelihoods: the distribution of a target, given the output of a network."""

from whvi.likelihoods.base import Likelihood
from whvi.likelihoods.discrete import Bernoulli, Categorical, Discrete
from whvi.likelihoods.gaussian import Gaussian

__all__ = ["Bernoulli", "Categorical", "Discrete", "Gaussian", "Likelihood"]
