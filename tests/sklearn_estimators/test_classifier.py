"""Laws of WHVIClassifier."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from whvi.errors import ArgumentError
from whvi.sklearn import WHVIClassifier

QUICK: dict[str, Any] = {
    "n_members": 1,
    "hidden_layer_sizes": (16,),
    "max_steps": 60,
    "learning_rate": 0.05,
    "random_state": 0,
}
X, LABELS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]


@pytest.fixture(scope="module")
def fitted() -> WHVIClassifier:
    return WHVIClassifier(**{**QUICK, "max_steps": 200}).fit(X, NAMES)


def test_it_learns(fitted: WHVIClassifier) -> None:
    assert fitted.score(X, NAMES) > 0.93
    assert list(fitted.classes_) == ["setosa", "versicolor", "virginica"]


def test_probabilities_labels_and_densities_say_the_same(fitted: WHVIClassifier) -> None:
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert (fitted.predict(X) == fitted.classes_[probabilities.argmax(1)]).all()
    np.testing.assert_allclose(fitted.log_prob(X, NAMES), np.log(probabilities[np.arange(150), LABELS]), rtol=1e-6)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities)


def test_drawn_labels_have_the_predicted_probabilities(fitted: WHVIClassifier) -> None:
    drawn = fitted.sample_y(X, 2000, random_state=0)
    assert drawn.shape == (150, 2000)
    share = np.stack([(drawn == name).mean(1) for name in fitted.classes_], axis=1)
    assert np.abs(share - fitted.predict_proba(X)).max() < 0.2  # 64 functions against 2000
    assert np.abs(share - fitted.predict_proba(X)).mean() < 0.02


@pytest.mark.parametrize("labels", [LABELS, NAMES, NAMES.astype(object), LABELS > 0, LABELS * 10 - 10])
def test_labels_come_back_as_they_were_given(labels: Any) -> None:
    found = WHVIClassifier(**QUICK).fit(X, labels).predict(X)
    assert set(found) <= set(labels)
    assert np.mean(found == labels) > 0.8


def test_partial_fit_learns_a_stream() -> None:
    model = WHVIClassifier((32,), n_members=1, batch_size=25, learning_rate=0.05, random_state=0)
    for _ in range(15):
        for rows in np.split(np.random.RandomState(0).permutation(150), 3):
            model.partial_fit(X[rows], NAMES[rows], classes=np.unique(NAMES))
    assert model.score(X, NAMES) > 0.9
    with pytest.raises(ArgumentError, match="not the same as on last call"):
        model.partial_fit(X, NAMES, classes=["other", "labels"])
    with pytest.raises(ArgumentError, match="no classes"):
        model.partial_fit(X, LABELS.astype(str))


def test_what_cannot_be_learned_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="one class"):
        WHVIClassifier(**QUICK).fit(X[:50], NAMES[:50])
    with pytest.raises(ArgumentError, match="first call"):
        WHVIClassifier(**QUICK).partial_fit(X, NAMES)
    with pytest.raises(ValueError, match="label"):
        WHVIClassifier(**QUICK).fit(X, X[:, 0])
    with pytest.raises(ArgumentError, match="no classes"):
        WHVIClassifier(**QUICK).fit(X, NAMES).log_prob(X[:1], ["rose"])


def test_a_fit_that_fails_leaves_the_classifier_as_it_was(fitted: WHVIClassifier) -> None:
    wanted = fitted.predict_proba(X)
    with pytest.raises(ArgumentError, match="one class"):
        fitted.fit(X[:50, :2], NAMES[:50])
    assert (fitted.predict_proba(X) == wanted).all()
