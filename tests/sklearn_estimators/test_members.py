"""Estimators of several members."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError
from whvi.inference import member_seeds
from whvi.likelihoods import Gaussian, Likelihood
from whvi.sklearn import WHVIClassifier, WHVIRegressor, base
from whvi.sklearn.calibration import squares_of
from whvi.sklearn.held_out import apart, held_out
from whvi.sklearn.parameters import checked
from whvi.sklearn.training import Training, TrainingData, make_network, train

QUICK: dict[str, Any] = {"hidden_layer_sizes": (16,), "max_steps": 60, "learning_rate": 0.05, "random_state": 0}
RNG = np.random.RandomState(0)
X = RNG.uniform(-2.0, 2.0, (120, 2))
Y = 50.0 + 10.0 * np.sin(X[:, 0]) + RNG.randn(120)


def test_members_are_networks_trained_alone() -> None:
    """Law: each is what ``train`` makes of its network alone with its seed, also where it stops early."""
    x, y = torch.randn(60, 2).double(), torch.linspace(-1.0, 1.0, 60).double().unsqueeze(-1)
    weight = torch.linspace(0.5, 1.5, 60).double()
    data, looks = (TrainingData(x[part], y[part], weight[part]) for part in (slice(50), slice(50, 60)))
    seeds = member_seeds(7, 2)

    def member(seed: int) -> tuple[nn.Module, Likelihood]:
        law = Gaussian(1, "input").double()
        return make_network(2, (8,), law, "diagonal", seed).double(), law

    together = [member(seed) for seed in seeds]
    train(together, [data] * 2, looks, Training(100, 16, 0.1, 7, patience=2))
    for pair, seed in zip(together, seeds, strict=True):
        alone = member(seed)
        train([alone], [data], looks, Training(100, 16, 0.1, seed, patience=2))
        for one, other in zip(pair, alone, strict=True):
            for a, b in zip(one.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


def test_predictions_mix_all_members() -> None:
    model = WHVIRegressor(**QUICK, n_members=3, samples=48).fit(X, Y)
    assert isinstance(model.model_, Ensemble)
    assert len(model.model_) == 3
    mean, std = model.predict(X, return_std=True)
    each = []
    for index in range(3):  # an estimator with one of the members in it
        alone = WHVIRegressor(**QUICK, n_members=1, samples=512).fit(X[:20], Y[:20])
        alone.x_scaling_, alone.y_scaling_, alone.spread_ = model.x_scaling_, model.y_scaling_, model.spread_
        alone.model_, alone.likelihood_ = model.model_.pair(index)
        each.append(alone.predict(X))
    assert np.abs(np.mean(each, 0) - mean).max() < 4 * np.max(std) / 48**0.5
    assert np.abs(each[0] - each[1]).max() > 0.0
    assert model.score(X, Y) > 0.5
    assert (WHVIRegressor(**QUICK, n_members=3, samples=48).fit(X, Y).predict(X) == mean).all()


def test_a_stream_trains_all_members() -> None:
    model = WHVIRegressor((16,), n_members=2, batch_size=32, learning_rate=0.05, random_state=0)
    for _ in range(25):
        model.partial_fit(X, Y)
    assert isinstance(model.model_, Ensemble)
    assert model.score(X, Y) > 0.6


def test_classes_are_probable_on_average_over_members() -> None:
    labels = np.where(Y > 50.0, "high", "low")
    model = WHVIClassifier(**QUICK, n_members=2, early_stopping=True).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    assert model.score(X, labels) > 0.85
    assert np.isfinite(model.history_["validation_mnll"]).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_members": 0}, "n_members must be at least 1, got 0"), ({"compile": "yes"}, "compile must be True, False or")],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        WHVIRegressor(**QUICK, **parameters).fit(X, Y)


def test_each_member_leaves_out_rows_of_its_own_to_calibrate_by() -> None:
    model = WHVIRegressor(**QUICK, n_members=3, validation_fraction=0.2, samples=256).fit(X, Y)
    held = [apart(len(X), 0.2, model.seed_, part) for part in range(3)]
    assert [int(one.sum()) for one in held] == [24] * 3
    assert np.sum(held, axis=0).max() == 1
    assert model.n_rows_seen_ == len(X)
    order = np.lexsort(np.column_stack([X, Y]).T)
    alone = WHVIRegressor(**QUICK, n_members=1, samples=256).fit(X[:20], Y[:20])
    alone.x_scaling_, alone.y_scaling_, alone.spread_ = model.x_scaling_, model.y_scaling_, np.ones(1)
    assert isinstance(model.model_, Ensemble)
    pairs = []
    for part in range(3):
        alone.model_, alone.likelihood_ = model.model_.pair(part)
        pairs.append(alone.predict(X[order], return_std=True))
    means, stds = np.array(pairs).transpose(1, 0, 2)
    between = means.var(axis=0)
    square = sum(
        float(((np.square(Y[order] - means[part]) - between) / (np.square(stds).mean(axis=0) + between))[chosen].sum())
        for part, chosen in enumerate(held)
    )
    assert model.spread_**2 == pytest.approx((10.0 + square) / (10.0 + 72.0), rel=0.05)


def test_calibration_by_members_finds_the_spread_of_their_mixture() -> None:
    """Law: where members scatter around the truth, the mixture's squared errors in its variances are found unbiased."""
    rng, rows, members = np.random.RandomState(0), 40_000, 4
    scatter, noise = 0.8, 0.5
    truth = rng.randn(rows, 1)
    mean = truth + scatter * rng.randn(members, rows, 1)
    y = truth + noise * rng.randn(rows, 1)
    stated = np.full_like(mean, 0.3)
    own = rng.randint(members, size=rows)
    found = float(squares_of(y, mean, stated, own).mean())
    wanted = float((np.square(y - mean.mean(axis=0)) / (0.3 + mean.var(axis=0))).mean())
    assert found == pytest.approx(wanted, rel=0.05)


def test_a_member_does_not_see_the_rows_that_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrainingData] = []

    def spy(members: Any, data: Any, *rest: Any) -> Any:
        seen.extend(data)
        return train(members, data, *rest)

    monkeypatch.setattr(base, "train", spy)
    model = WHVIRegressor(**{**QUICK, "max_steps": 2}, n_members=2).fit(X, Y)
    rows = X[np.lexsort(np.column_stack([X, Y]).T)]
    for part, data in enumerate(seen):
        left = rows[~apart(len(X), 0.1, model.seed_, part)]
        np.testing.assert_allclose(data.x.numpy(), model.x_scaling_.forward(left), rtol=1e-5, atol=1e-6)
    assert len(seen) == 2


def test_in_large_tables_all_members_leave_out_the_same_few_rows() -> None:
    parameters = checked(WHVIRegressor(n_members=4))
    (common,) = held_out(60_000, parameters, 4, seed=0)
    assert common.sum() == 1000
    each = held_out(40_000, parameters, 4, seed=0)
    assert [int(one.sum()) for one in each] == [250] * 4
    assert np.sum(each, axis=0).max() == 1
    (none,) = held_out(99, parameters, 4, seed=0)
    assert not none.any()
