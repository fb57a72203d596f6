"""Predictions, their quality, and pictures of both."""

from whvi.predictive.ensemble import Ensemble
from whvi.predictive.predict import predict
from whvi.predictive.prediction import Prediction

__all__ = ["Ensemble", "Prediction", "predict"]
