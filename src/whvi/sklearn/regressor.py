"""Regression with a predictive distribution."""

from collections.abc import Sequence
from typing import Any, Self, SupportsFloat

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from whvi.errors import ShapeError
from whvi.inference.seeds import mix
from whvi.likelihoods import Gaussian, Likelihood
from whvi.predictive import crps_samples, interval_score
from whvi.scaling import Array, Scaling
from whvi.sklearn.base import WHVIEstimator
from whvi.sklearn.calibration import spread_of, squares_of
from whvi.sklearn.parameters import NOISE, checked
from whvi.sklearn.rows import Rows, finite, merged
from whvi.sklearn.training import START_VARIANCE


class WHVIRegressor(RegressorMixin, WHVIEstimator):  # type: ignore[misc]
    """Regression by a network with Walsh-Hadamard posteriors: a mean and its uncertainty.

    Args:
        hidden_layer_sizes: units of each hidden layer.
        n_members: number of networks, trained at once from different initial weights; predictions are their mixture.
        posterior: of each layer's g: "diagonal", "low_rank:8", "full", "planar:10".
        terms: number of structured matrices whose sum is a weight: more terms help with many rows. None
            for 1, and for 4 from 5,000 rows on.
        layout, block: how a weight is built from blocks, as for ``whvi.nn.WHVILinear``.
        noise: "input", a variance that the network predicts for each row; "constant", a learned one for each output.
        calibrate: each member holds out a different ``validation_fraction`` of the rows; the spread of
            predictions is set by the predictions of members on their held-out rows.
        max_steps: training steps; None for a default that depends on the number of rows.
        batch_size: rows of a step; None for 64, and for 128 from 5,000 rows on.
        learning_rate: initial one of Adam; it falls to zero as half a cosine.
        samples: number of draws of a prediction.
        early_stopping: hold out ``validation_fraction`` of the rows, evaluate them up to 50 times, stop after
            ``patience`` evaluations without improvement, and restore the best parameters.
        validation_fraction, patience: see ``early_stopping`` and ``calibrate``.
        compile: compile the step, as ``whvi.fit(compile=True)``; needs a C++ compiler and about ten seconds,
            and pays off in long fits. "auto" for "if there is a compiler and the fit is long".
        random_state: an int for reproducible fits.
        verbose: show a progress bar.

    After ``fit``: ``model_``, ``likelihood_`` (both for standardised data), ``history_`` (lists "step", "elbo",
    "validation_mnll"), ``n_features_in_``, ``feature_names_in_`` (if X has names), ``n_rows_seen_`` (trained on),
    ``spread_`` (the factor of ``calibrate`` for the standard deviation of each output).

    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-2, 2, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.randn(200)
    >>> model = WHVIRegressor((32,), n_members=2, max_steps=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> low, high = model.predict_interval(X, level=0.9)
    >>> bool(np.mean((low < y) & (y < high)) > 0.8)
    True
    """

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (128, 128),
        *,
        n_members: int = 8,
        posterior: str = "diagonal",
        terms: int | None = None,
        layout: str = "stack",
        block: int | None = None,
        noise: str = "input",
        calibrate: bool = True,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-2,
        samples: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        compile: bool | str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            n_members=n_members,
            posterior=posterior,
            terms=terms,
            layout=layout,
            block=block,
            calibrate=calibrate,
            max_steps=max_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            samples=samples,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            patience=patience,
            compile=compile,
            random_state=random_state,
            verbose=verbose,
        )
        self.noise = noise

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table.

        Args:
            X: (N, features), an array or a frame of pandas or polars.
            y: (N,) or (N, outputs).
            sample_weight: (N,); a row of weight w counts as w rows.
        """
        with self._whole_or_as_before():
            return self._fit_rows(self._read(X, y, sample_weight, reset=True))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, prior: str = "first") -> Self:
        """One pass over more rows, as a part of all rows seen so far. The first rows set the scales of columns.

        With ``prior="posterior"`` it makes a whole fit to these rows instead, in which the posterior of the earlier
        rows is the prior, and parameters without a posterior are frozen: for a few large parts. Use the
        same option in all calls.

        All rows train: the ``spread_`` of an earlier ``fit`` stays; without one it is 1.
        """
        with self._whole_or_as_before():
            return self._partial_fit_rows(self._read(X, y, sample_weight, reset=not hasattr(self, "model_")), prior)

    def predict(self, X: Any, return_std: bool = False, *, method: str = "samples") -> Any:
        """The mean of each target, and with ``return_std`` also its standard deviation with noise: in the shape of y.

        ``method="moments"``, here and below, has no draws: it propagates mean and variance through the network in one
        pass.
        """
        prediction = self._predict(X, method=method)
        mean = self._as_given(self.y_scaling_.back(prediction.mean.numpy()))
        if not return_std:
            return mean
        return mean, self._as_given(prediction.std.numpy() * self.spread_ * self.y_scaling_.scale)

    def predict_quantiles(
        self, X: Any, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95), *, method: str = "samples"
    ) -> Array:
        """Quantiles of each target: (N, Q), or (N, outputs, Q); for a single level, the shape of y."""
        prediction = self._predict(X, method=method)
        levels = [quantiles] if isinstance(quantiles, SupportsFloat) and np.ndim(quantiles) == 0 else quantiles
        found = self._values(prediction.mean, prediction.quantile(levels))
        return found[..., 0] if levels is not quantiles else found

    def predict_interval(self, X: Any, level: float = 0.9, *, method: str = "samples") -> tuple[Array, Array]:
        """The ends of the central interval that contains each target with probability ``level``: in the shape of y."""
        prediction = self._predict(X, method=method)
        ends = self._values(prediction.mean, torch.stack(prediction.interval(level)))
        return ends[..., 0], ends[..., 1]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of the targets, each from one draw for all rows: (N, n_samples), or (N, outputs, n_samples).

        Law: each draw is of the same distribution, however many there are.
        """
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        drawn = self._predict(X, n_samples, seed).sample_y(n_samples)
        return self._values(self._predict(X).mean, drawn)

    def log_prob(self, X: Any, y: Any, *, method: str = "samples") -> Array:
        """The log predictive density of each row in nats: (N,). Minus its mean is the MNLL."""
        prediction = self._predict(X, method=method)
        finite(prediction.std.numpy())
        mean = prediction.mean.numpy()
        y = self.y_scaling_.forward(self._given(X, y).reshape(mean.shape))
        found = prediction.log_prob(torch.from_numpy(mean + (y - mean) / self.spread_))
        return np.asarray(found.numpy() - np.log(self.spread_ * self.y_scaling_.scale).sum())

    def crps(self, X: Any, y: Any, n_samples: int = 256, random_state: Any = 0) -> float:
        """Continuous ranked probability score in the unit of y, averaged over rows and outputs, by ``n_samples`` draws.

        Law: without noise and with one draw it is the mean absolute error.
        """
        drawn, y = self.sample_y(X, n_samples, random_state), self._given(X, y)
        return float(crps_samples(torch.from_numpy(np.moveaxis(drawn, -1, 0).copy()), torch.from_numpy(y)))

    def interval_score(self, X: Any, y: Any, level: float = 0.9) -> float:
        """Interval score of ``predict_interval``, in the unit of y: its width and its misses; less is better."""
        low, high = (torch.from_numpy(end.copy()) for end in self.predict_interval(X, level))
        return float(interval_score(low, high, torch.from_numpy(self._given(X, y)), level))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _read(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Rows:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        if reset:
            self.n_outputs_, self._flat, self.spread_ = outputs, y.ndim == 1, np.ones(outputs)
        elif outputs != self.n_outputs_:
            raise ShapeError(f"y has {outputs} outputs, but the first rows had {self.n_outputs_}; give as many")
        return merged(X, y, self._weights(X, sample_weight))

    def _make_likelihood(self) -> Likelihood:
        return Gaussian(self.n_outputs_, NOISE[self._architecture["noise"]], variance=START_VARIANCE)

    def _scaling_of(self, rows: Rows) -> Scaling:
        return Scaling.of(rows.y, rows.weight)

    def _as_targets(self, y: Array) -> Tensor:
        return torch.from_numpy(y).float()

    def _calibrate(self, rows: Rows, held: list[Array]) -> None:
        samples, seed = checked(self).samples, mix(self.seed_, "calibration")
        looked_at = rows[np.any(held, axis=0)]
        members = range(len(held)) if len(held) > 1 else [None]
        found = [self._law(looked_at.x, samples, seed, member=member) for member in members]
        mean, variance = (np.stack([getattr(one, name).numpy() for one in found]) for name in ("mean", "variance"))
        own = np.argmax(held, axis=0)[np.any(held, axis=0)]
        squares = squares_of(self.y_scaling_.forward(looked_at.y), mean, variance, own)
        self.spread_ = spread_of(squares, looked_at.weight)

    def _values(self, mean: Tensor, values: Tensor) -> Array:
        """Values of standardised targets (count, N, outputs) as they are to be: spread, scaled, the count last.

        They are spread around the mean that ``predict`` gives, (N, outputs).
        """
        centre = mean.numpy()
        spread = self.y_scaling_.back(centre + (values.numpy() - centre) * self.spread_)
        return finite(np.moveaxis(spread[..., 0] if self._flat else spread, 0, -1))

    def _given(self, X: Any, y: Any) -> Array:
        """Targets of rows in the shape that predictions have."""
        y = check_array(y, dtype=np.float64, ensure_2d=False, copy=True)  # torch takes what can be written to
        shape = (len(X),) if self._flat else (len(X), self.n_outputs_)
        if y.shape not in (shape, (*shape, 1)) and (*y.shape, 1) != shape:
            raise ShapeError(f"y has shape {y.shape}, but targets of X have {shape}; give one each")
        return np.asarray(y.reshape(shape))

    def _as_given(self, values: Array) -> Array:
        """(N, outputs), or (N,) if that was the shape of y."""
        return finite(values[:, 0] if self._flat else values)
