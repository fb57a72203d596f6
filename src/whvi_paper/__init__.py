"""Experiments that reproduce "Walsh-Hadamard Variational Inference for Bayesian Deep Learning" (NeurIPS 2020).

They live outside the library on purpose: this package imports whvi, never the reverse.
"""
