"""Predictions, their quality, and pictures of both."""

from whvi.ensemble import Ensemble
from whvi.predictive.calibration import (
    Reliability,
    coverage,
    ece,
    interval_width,
    quantile_calibration,
    reliability,
)
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
from whvi.predictive.predict import predict
from whvi.predictive.prediction import Prediction

__all__ = [
    "Ensemble",
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
    "interval_width",
    "mnll",
    "predict",
    "quantile_calibration",
    "reliability",
    "rmse",
    "selective_curve",
    "sharpness",
]
