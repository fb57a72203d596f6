"""Likelihoods: the distribution of a target, given what a network says about it."""

from whvi.likelihoods.base import Likelihood
from whvi.likelihoods.discrete import Bernoulli, Categorical, Discrete
from whvi.likelihoods.gaussian import Gaussian

__all__ = ["Bernoulli", "Categorical", "Discrete", "Gaussian", "Likelihood"]
