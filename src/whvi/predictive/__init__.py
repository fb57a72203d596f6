"""Predictions, their metrics, calibration and plots."""

from whvi.ensemble import Ensemble
from whvi.predictive.analytic import AnalyticPrediction
from whvi.predictive.calibration import (
    Reliability,
    coverage,
    ece,
    interval_score,
    interval_width,
    quantile_calibration,
    reliability,
)
from whvi.predictive.last_step import Moments
from whvi.predictive.metrics import (
    SelectiveCurve,
    auroc,
    brier,
    crps_gaussian,
    crps_samples,
    error_rate,
    mnll,
    rmse,
    selective_curve,
    sharpness,
)
from whvi.predictive.moments import moments_of, register_moments
from whvi.predictive.predict import predict
from whvi.predictive.prediction import Prediction

__all__ = [
    "AnalyticPrediction",
    "Ensemble",
    "Moments",
    "Prediction",
    "Reliability",
    "SelectiveCurve",
    "auroc",
    "brier",
    "coverage",
    "crps_gaussian",
    "crps_samples",
    "ece",
    "error_rate",
    "interval_score",
    "interval_width",
    "mnll",
    "moments_of",
    "predict",
    "quantile_calibration",
    "register_moments",
    "reliability",
    "rmse",
    "selective_curve",
    "sharpness",
]
