"""Laws of WHVIClassifier."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError
from whvi.sklearn import WHVIClassifier
from whvi.sklearn.calibration import Sureness, relabelled, sureness_of
from whvi.sklearn.held_out import apart

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
    with pytest.raises(ArgumentError, match="not in classes"):
        model.partial_fit(X, LABELS.astype(str))


def test_what_cannot_be_learned_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="one class"):
        WHVIClassifier(**QUICK).fit(X[:50], NAMES[:50])
    with pytest.raises(ArgumentError, match="first call"):
        WHVIClassifier(**QUICK).partial_fit(X, NAMES)
    with pytest.raises(ValueError, match="label"):
        WHVIClassifier(**QUICK).fit(X, X[:, 0])
    with pytest.raises(ArgumentError, match="not in classes"):
        WHVIClassifier(**QUICK).fit(X, NAMES).log_prob(X[:1], ["rose"])


def test_a_fit_that_fails_leaves_the_classifier_as_it_was(fitted: WHVIClassifier) -> None:
    wanted = fitted.predict_proba(X)
    with pytest.raises(ArgumentError, match="one class"):
        fitted.fit(X[:50, :2], NAMES[:50])
    assert (fitted.predict_proba(X) == wanted).all()


@pytest.mark.parametrize("truth", [Sureness(), Sureness(0.5), Sureness(2.0), Sureness(0.7, 0.3)])
def test_the_sureness_of_labels_is_found(truth: Sureness) -> None:
    """Law: of labels drawn from the changed probabilities it is that change; a row of weight 2 is two rows."""
    torch.manual_seed(0)
    p = torch.randn(5000, 3, dtype=torch.float64).mul(2.0).softmax(1)
    labels = torch.multinomial(truth.of(p), 1).squeeze(1)
    found = sureness_of(p, labels, torch.ones(5000).double())
    torch.testing.assert_close(found.of(p), truth.of(p), rtol=0.0, atol=0.05)
    twice = sureness_of(p[:50].repeat(2, 1), labels[:50].repeat(2), torch.ones(100).double())
    assert list(sureness_of(p[:50], labels[:50], torch.full((50,), 2.0).double())) == pytest.approx(list(twice))


def test_unchanged_probabilities_stay_to_the_bit_and_changed_ones_sum_to_one() -> None:
    p = torch.tensor([[1.0, 0.0], [0.3, 0.7]], dtype=torch.float64)
    assert Sureness().of(p) is p
    changed = Sureness(0.5, 0.1).of(p)
    torch.testing.assert_close(changed.sum(1), torch.ones(2).double())
    assert changed[0].tolist() == pytest.approx([0.95, 0.05])
    assert changed[1, 1] > p[1, 1]


def test_a_temperature_has_a_bound() -> None:
    p = torch.tensor([0.51, 0.49]).double().expand(10_000, 2)
    assert sureness_of(p, torch.zeros(10_000).long(), torch.ones(10_000).double()).temperature == 0.25


def test_one_sure_mistake_among_many_is_taken_for_a_wrong_label() -> None:
    p = torch.tensor([1.0 - 1e-8, 1e-8]).double().expand(200, 2)
    labels = torch.zeros(200).long()
    labels[0] = 1
    found = sureness_of(p, labels, torch.ones(200).double())
    assert found.lapse == pytest.approx(2 / 200, rel=0.2)
    assert found.of(p[0])[0] > 0.99


def test_labels_that_are_changed_have_the_wanted_probabilities() -> None:
    torch.manual_seed(0)
    p, wanted = (torch.rand(4, 3, dtype=torch.float64).softmax(1) for _ in range(2))
    labels = torch.multinomial(p, 20_000, replacement=True).mT
    found = relabelled(labels, p, wanted, torch.Generator().manual_seed(0))
    share = torch.stack([(found == label).double().mean(0) for label in range(3)], 1)
    torch.testing.assert_close(share, wanted, rtol=0.0, atol=0.015)
    as_before = (found == labels).double().mean(0)  # as often as two such labels can be alike
    torch.testing.assert_close(as_before, torch.minimum(p, wanted).sum(1), rtol=0.0, atol=0.015)


def test_halves_of_the_members_leave_out_rows_that_set_the_sureness() -> None:
    quick = {**QUICK, "max_steps": 20}
    model = WHVIClassifier(**{**quick, "n_members": 4}, validation_fraction=0.2).fit(X, NAMES)
    order = np.unique(np.column_stack([X, LABELS]), axis=0)  # equal rows are one
    held = [apart(len(order), 0.2, model.seed_, part) for part in range(2)]
    assert (held[0] & held[1]).sum() == 0
    assert model.n_rows_seen_ == len(X)
    assert isinstance(model.model_, Ensemble)
    alone = WHVIClassifier(**quick, samples=256, calibrate=False).fit(X, NAMES)
    assert alone.sureness_ == Sureness()
    alone.x_scaling_ = model.x_scaling_
    p, labels = [], []
    for half in range(2):
        rows, found = order[held[half]], []
        for member in (half, half + 2):
            alone.model_, alone.likelihood_ = model.model_.pair(member)
            found.append(alone.predict_proba(rows[:, :-1]))
        p.append(torch.from_numpy(np.mean(found, axis=0)))
        labels.append(torch.from_numpy(rows[:, -1]).long())
    weight = torch.ones(sum(map(len, labels))).double()
    wanted = sureness_of(torch.cat(p), torch.cat(labels), weight)
    assert list(model.sureness_) == pytest.approx(list(wanted), rel=0.1, abs=0.01)
    before = model.predict_log_proba(X)
    model.sureness_ = Sureness()
    assert not np.allclose(before, model.predict_log_proba(X))
    assert (before.argmax(1) == model.predict_log_proba(X).argmax(1)).all()
