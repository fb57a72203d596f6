"""Classification with probabilities that average over functions."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.likelihoods import Categorical, Likelihood
from whvi.scaling import Array, Scaling
from whvi.sklearn.base import WHVIEstimator
from whvi.sklearn.rows import Rows, finite, merged


class WHVIClassifier(ClassifierMixin, WHVIEstimator):  # type: ignore[misc]
    """Classification by a network with Walsh-Hadamard posteriors.

    Args: those of ``WHVIRegressor``, without ``noise`` and ``calibrate``.

    After ``fit``: ``classes_``, and what ``WHVIRegressor`` has.

    >>> X = np.array([[-1.0], [-0.9], [0.9], [1.0]] * 20)
    >>> labels = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = WHVIClassifier((16,), n_members=2, max_steps=200, random_state=0).fit(X, labels)
    >>> model.predict([[-1.0], [1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.predict_proba([[-1.0], [1.0]]).shape
    (2, 2)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table.

        Args:
            X: (N, features), an array or a frame of pandas or polars.
            y: (N,) of labels: numbers, strings, truth values.
            sample_weight: (N,); a row of weight w counts as w rows.
        """
        with self._whole_or_as_before():
            X, y, weight = self._read(X, y, sample_weight, reset=True)
            self._set_classes(np.unique(y[weight > 0.0]))
            return self._fit_rows(self._coded(X, y, weight))

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, prior: str = "first"
    ) -> Self:
        """One pass over more rows, as a part of all rows seen so far; the first call needs all ``classes``.

        With ``prior="posterior"`` a whole fit to these rows instead, in which the posterior of the rows before is the
        prior, and what is not random stays: for rows that come in a few large parts. Use one of the two throughout.
        """
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise ArgumentError("classes must be passed on the first call to partial_fit: all labels there will be")
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ArgumentError(f"classes={classes!r} is not the same as on last call, {self.classes_}")
        with self._whole_or_as_before():
            X, y, weight = self._read(X, y, sample_weight, reset=first)
            if first:
                self._set_classes(np.unique(classes))
            return self._partial_fit_rows(self._coded(X, y, weight), prior)

    def predict(self, X: Any, *, method: str = "samples") -> Array:
        """The most probable class of each row: (N,)."""
        codes = self.predict_proba(X, method=method).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any, *, method: str = "samples") -> Array:
        """The probability of each class, the mean over functions: (N, classes).

        With ``method="moments"`` none are drawn: mean and variance of the logits come from one pass, and the mean is
        over 64 fixed points of their distribution.
        """
        probabilities = finite(self._predict(X, method=method).mean.numpy())
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any, *, method: str = "samples") -> Array:
        """The logarithm of ``predict_proba``."""
        return np.asarray(np.log(self.predict_proba(X, method=method)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Labels drawn from the predictive distribution, each of one function for all rows: (N, n_samples)."""
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        codes = self._predict(X, n_samples, seed).sample_y(n_samples).numpy().T
        return np.asarray(self.classes_[codes])

    def log_prob(self, X: Any, y: Any, *, method: str = "samples") -> Array:
        """The log predictive probability of each row's label in nats: (N,). Minus its mean is the MNLL."""
        prediction = self._predict(X, method=method)
        return np.asarray(prediction.log_prob(torch.from_numpy(self._codes(column_or_1d(y)))).numpy())

    def _read(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Array, Array, Array]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y, self._weights(X, sample_weight)

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ArgumentError(f"y has one class, {classes.tolist()}, but a classifier needs at least two classes")
        self.classes_ = classes

    def _codes(self, y: Array) -> Array:
        """The place of each label in ``classes_``."""
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ArgumentError(f"y has labels that are no classes: {np.unique(y[unknown])[:5].tolist()}")
        return codes

    def _coded(self, x: Array, y: Array, weight: Array) -> Rows:
        kept = weight > 0.0  # a row of no weight may have a label of no class
        return merged(x[kept], self._codes(y[kept]), weight[kept])

    def _make_likelihood(self) -> Likelihood:
        return Categorical(len(self.classes_))

    def _scaling_of(self, rows: Rows) -> Scaling:
        return Scaling.none(1)

    def _as_targets(self, y: Array) -> Tensor:
        return torch.from_numpy(y[:, 0]).long()
