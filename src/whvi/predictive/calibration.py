"""Calibration of class probabilities, intervals and quantiles."""

from typing import NamedTuple

import torch
from torch import Tensor

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError
from whvi.predictive.checked import alike, forecast, numbers, ordered, same_device, vector, within_one


class Reliability(NamedTuple):
    """Confidence and accuracy in bins of the confidence; an empty bin has NaN for both."""

    confidence: Tensor
    """Mean top probability of the rows in each bin (bins)."""
    accuracy: Tensor
    """Fraction of these rows whose most probable class is the label (bins)."""
    count: Tensor  # type: ignore[assignment]  # hides tuple.count, which nobody asks for here
    """Number of rows in each bin (bins), int64."""
    edges: Tensor
    """0, 1/bins, ..., 1: bin b holds the top probabilities in (edges[b], edges[b + 1]] (bins + 1)."""

    @property
    def error(self) -> Tensor:
        """Expected calibration error: mean over rows of |accuracy - confidence| of their bin, a scalar."""
        return ((self.accuracy - self.confidence).abs() * self.count).nansum() / self.count.sum()


@checked
def reliability(probabilities: Tensor, labels: Tensor, bins: int = 15) -> Reliability:
    """Accuracy against confidence, in bins of equal width.

    Edges are compared in the dtype of the probabilities, where 0.7 lies on the edge 0.7 and so in the bin below it.

    Shapes: (N, C) and (N) -> four of (bins), (bins), (bins) and (bins + 1).

    >>> reliability(torch.tensor([[0.8, 0.2], [0.6, 0.4]]), torch.tensor([0, 1]), bins=2).accuracy.tolist()
    [nan, 0.5]
    """
    if not isinstance(bins, int) or isinstance(bins, bool):
        raise InputTypeError(f"bins must be an int, got {bins!r}")
    if bins < 1:
        raise ArgumentError(f"bins must be at least 1, got {bins}")
    wide, labels = forecast(probabilities, labels)
    confidence, guess = wide.max(dim=-1)
    edges = torch.arange(bins + 1, dtype=wide.dtype, device=wide.device) / bins
    inner = edges[1:-1].to(probabilities.dtype).double()
    place = torch.bucketize(confidence, inner)
    count = torch.bincount(place, minlength=bins)

    def bin_mean(values: Tensor) -> Tensor:
        return torch.zeros(bins, dtype=wide.dtype, device=wide.device).index_add(0, place, values) / count

    return Reliability(bin_mean(confidence), bin_mean((guess == labels).double()), count, edges)


@checked
def ece(probabilities: Tensor, labels: Tensor, bins: int = 15) -> Tensor:
    """Expected calibration error: sum_b count_b / N |accuracy_b - confidence_b|, over bins of the top probability.

    Bins have equal width. With few rows in a bin it is biased upwards: a calibrated forecast has zero only in the
    limit.

    Law: it lies in [0, 1], and is 0 if all forecasts are certain and correct.

    Shapes: (N, C) and (N) -> ().

    >>> ece(torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 0, 0, 1])).item()
    0.0
    """
    return reliability(probabilities, labels, bins).error


def coverage(low: Tensor, high: Tensor, y: Tensor) -> Tensor:
    """Fraction of y with low <= y <= high, over all rows and outputs; for a calibrated interval this is its level.

    Shapes: (N, ...) three times -> ().

    >>> coverage(torch.zeros(2), torch.ones(2), torch.tensor([0.5, 1.5])).item()
    0.5
    """
    low, high = _interval(low, high)
    y = numbers("y", y)
    alike("low", low, "y", y)
    return ((low <= y) & (y <= high)).double().mean()


def interval_width(low: Tensor, high: Tensor) -> Tensor:
    """Mean of high - low, over all rows and outputs. Of two intervals with equal coverage the narrower one is better.

    Shapes: (N, ...) twice -> ().

    >>> interval_width(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 4.0])).item()
    2.0
    """
    low, high = _interval(low, high)
    return (high - low).mean()


@checked
def interval_score(low: Tensor, high: Tensor, y: Tensor, level: float) -> Tensor:
    """Score of the central interval of a level (Gneiting and Raftery, 2007), in the unit of y: smaller is better.

    high - low + 2 / (1 - level) * (low - y if y < low, y - high if y > high); the mean over all rows and outputs.

    Law: in expectation no interval is better than the one between the quantiles (1 - level) / 2 and (1 + level) / 2.

    Shapes: (N, ...) three times -> ().

    >>> interval_score(torch.zeros(2), torch.ones(2), torch.tensor([0.5, 1.5]), 0.5).item()
    2.0
    """
    low, high = _interval(low, high)
    y = numbers("y", y)
    alike("low", low, "y", y)
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"level must be between 0 and 1, got {level}")
    outside = (low - y).clamp_min(0.0) + (y - high).clamp_min(0.0)
    return (high - low + 2.0 / (1.0 - level) * outside).mean()


def _interval(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    low, high = numbers("low", low), numbers("high", high)
    alike("low", low, "high", high)
    ordered(low, high)
    return low, high


def quantile_calibration(cdf_values: Tensor, levels: Tensor) -> Tensor:
    """Fraction of cdf_values <= each level; for a calibrated distribution this is the level itself.

    ``cdf_values`` are F_n(y_n), the predictive distribution function of each row at its target (the probability
    integral transform); they are uniform on [0, 1] if the distribution is right.

    Shapes: (N, ...) and (L) -> (L).

    >>> quantile_calibration(torch.tensor([0.1, 0.2, 0.6, 0.9]), torch.tensor([0.25, 0.5, 1.0])).tolist()
    [0.5, 0.5, 1.0]
    """
    cdf_values, levels = numbers("cdf_values", cdf_values), vector("levels", levels)
    same_device("cdf_values", cdf_values, "levels", levels)
    within_one("cdf_values", cdf_values)
    within_one("levels", levels)
    found = torch.searchsorted(cdf_values.flatten().sort().values, levels, right=True)
    return found.double() / cdf_values.numel()
