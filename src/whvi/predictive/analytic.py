"""Predictions from means and variances, without samples."""

from functools import cached_property, partial
from typing import Any

from torch import Tensor, nn

from whvi.likelihoods import Gaussian, Likelihood
from whvi.predictive.functions import Functions
from whvi.predictive.last_step import Points
from whvi.predictive.prediction import Prediction
from whvi.rows import Inputs


class AnalyticPrediction(Prediction):
    """The predictive distribution of ``whvi.predict(..., method="moments")``: a ``Prediction`` from one pass.

    The outputs of the network are treated as Gaussian, with the mean and the variance of ``moments_of``, and
    independent of each other. With Gaussian noise, densities, intervals and entropies follow in closed form (a mixture
    over the noise, if the network predicts it). For other likelihoods, and in ``samples``, fixed points represent the
    distribution of the outputs; ``samples`` is their number. Rows are independent: ``samples`` and ``sample_y`` have
    no covariance between targets.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Inputs,
        likelihood: Likelihood | None,
        samples: int | None,
        rows: int | None,
        seed: int,
    ) -> None:
        self._points, self._rows = partial(Points, model, likelihood, samples), rows
        super().__init__(Functions(self._points(smooth=False), x, "batch", rows, seed))

    @cached_property
    def _smooth(self) -> Prediction | None:
        """With the variance of the output in that of the noise, for a Gaussian likelihood."""
        first = self._functions
        if not isinstance(first.likelihood, Gaussian):
            return None
        smooth = self._points(smooth=True)
        return Prediction(Functions(smooth, first.x, "batch", self._rows, first.seed, first.snapshot))

    @property
    def entropy(self) -> Tensor:
        """As of a ``Prediction``."""
        return super().entropy if self._smooth is None else self._smooth.entropy

    def cdf(self, y: Tensor) -> Tensor:
        """As of a ``Prediction``."""
        return super().cdf(y) if self._smooth is None else self._smooth.cdf(y)

    def log_prob(self, y: Tensor) -> Tensor:
        """As of a ``Prediction``."""
        return super().log_prob(y) if self._smooth is None else self._smooth.log_prob(y)

    def sample_y(self, count: int | None = None) -> Tensor:
        """As of a ``Prediction``, but rows are independent."""
        if self._smooth is None:
            return super().sample_y(count)
        return self._smooth.sample_y(self.functions if count is None else count)

    def _quantiles(self, *arguments: Any) -> tuple[Tensor, ...]:
        return super()._quantiles(*arguments) if self._smooth is None else self._smooth._quantiles(*arguments)
