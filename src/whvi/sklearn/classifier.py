"""Classification with probabilities that average over draws."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.inference.seeds import mix
from whvi.likelihoods import Categorical, Likelihood
from whvi.scaling import Array, Scaling
from whvi.sklearn.base import WHVIEstimator
from whvi.sklearn.calibration import Sureness, relabelled, sureness_of
from whvi.sklearn.parameters import checked
from whvi.sklearn.rows import Rows, finite, merged

HALVES = 2
"""Groups of members that leave out rows to calibrate by: the probabilities of a mixture need several members."""


class WHVIClassifier(ClassifierMixin, WHVIEstimator):  # type: ignore[misc]
    """Classification by a network with Walsh-Hadamard posteriors.

    Args: those of ``WHVIRegressor``, without ``noise``. To ``calibrate``, one half of the members leaves out
    ``validation_fraction`` of the rows and the other half others; the probabilities p that each half gives to what it
    left out set a temperature T and a share e of labels that say nothing; (1 - e) p^(1/T) + e / classes is predicted,
    with p^(1/T) scaled to sum 1. So a mixture is as sure as it is right.

    After ``fit``: ``classes_``, ``sureness_`` (T and e), and what ``WHVIRegressor`` has, without ``spread_``.

    >>> X = np.array([[-1.0], [-0.9], [0.9], [1.0]] * 20)
    >>> labels = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = WHVIClassifier((16,), n_members=2, max_steps=200, random_state=0).fit(X, labels)
    >>> model.predict([[-1.0], [1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.predict_proba([[-1.0], [1.0]]).shape
    (2, 2)
    """

    _groups = HALVES
    sureness_ = Sureness()  # of one that an earlier version has saved

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to a table.

        Args:
            X: (N, features), an array or a frame of pandas or polars.
            y: (N,) of labels: numbers, strings, booleans.
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

        With ``prior="posterior"`` it makes a whole fit to these rows instead, in which the posterior of the earlier
        rows is the prior, and parameters without a posterior are frozen: for a few large parts. Use the
        same option in all calls.
        """
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise ArgumentError("classes must be passed on the first call to partial_fit: all labels that will occur")
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
        """The probability of each class, the mean over draws: (N, classes).

        With ``method="moments"`` there are no draws: mean and variance of the logits come from one pass, and the mean
        is over 64 fixed points of their distribution.
        """
        probabilities = finite(self.sureness_.of(self._predict(X, method=method).mean).numpy())
        return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any, *, method: str = "samples") -> Array:
        """The logarithm of ``predict_proba``."""
        return np.asarray(np.log(self.predict_proba(X, method=method)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Labels drawn from the predictive distribution: (N, n_samples).

        Each draw is one draw of the network for all rows, except labels that are changed so that each row has the
        probabilities that ``calibrate`` has found.
        """
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        prediction = self._predict(X, n_samples, seed)
        codes, p = prediction.sample_y(n_samples), prediction.mean
        if self.sureness_ != Sureness():
            codes = relabelled(codes, p, self.sureness_.of(p), torch.Generator().manual_seed(mix(seed, "sureness")))
        return np.asarray(self.classes_[codes.numpy().T])

    def log_prob(self, X: Any, y: Any, *, method: str = "samples") -> Array:
        """The log predictive probability of each row's label in nats: (N,). Minus its mean is the MNLL."""
        prediction, labels = self._predict(X, method=method), torch.from_numpy(self._codes(column_or_1d(y)))
        if self.sureness_ == Sureness():
            return np.asarray(prediction.log_prob(labels).numpy())  # of a probability that has no digits left, too
        return np.asarray(self.sureness_.of(prediction.mean).gather(1, labels.unsqueeze(1)).squeeze(1).log().numpy())

    def _read(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Array, Array, Array]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y, self._weights(X, sample_weight)

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ArgumentError(f"y has one class, {classes.tolist()}, but a classifier needs at least two classes")
        self.classes_, self.sureness_ = classes, Sureness()

    def _codes(self, y: Array) -> Array:
        """The place of each label in ``classes_``."""
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ArgumentError(f"y has labels that are not in classes: {np.unique(y[unknown])[:5].tolist()}")
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

    def _calibrate(self, rows: Rows, held: list[Array]) -> None:
        samples, seed = checked(self).samples, mix(self.seed_, "calibration")
        groups = min(HALVES, len(held))
        p, labels, weight = [], [], []
        for group in range(groups):
            left_out = rows[held[group]]
            members = range(group, len(held), groups) if len(held) > 1 else [None]
            found = [self._law(left_out.x, samples, seed, member=member).mean for member in members]
            p.append(torch.stack(found).mean(0))
            labels.append(self._as_targets(left_out.y))
            weight.append(torch.from_numpy(left_out.weight))
        self.sureness_ = sureness_of(torch.cat(p), torch.cat(labels), torch.cat(weight))
