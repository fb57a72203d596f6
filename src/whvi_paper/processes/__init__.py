"""Gaussian processes on simulators: random features under each posterior, and their rivals."""
