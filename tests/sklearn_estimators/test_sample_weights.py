"""A weight is a number of rows."""

from typing import Any

import numpy as np
import pytest
import torch

from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.scaling import Scaling
from whvi.sklearn import WHVIClassifier, WHVIRegressor
from whvi.sklearn.rows import merged
from whvi.sklearn.weighted import Weighted, with_weights

QUICK: dict[str, Any] = {
    "n_members": 1,
    "hidden_layer_sizes": (16,),
    "max_steps": 40,
    "learning_rate": 0.05,
    "random_state": 0,
}


@pytest.mark.parametrize("kind", [WHVIRegressor, WHVIClassifier])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_row_of_weight_w_is_w_rows(kind: Any, early_stopping: bool) -> None:
    rng = np.random.RandomState(0)
    x, weight = rng.randn(60, 3), rng.randint(0, 4, 60)
    y = (x[:, 0] > 0).astype(int)
    times = np.repeat(np.arange(60), weight)
    settings = {**QUICK, "early_stopping": early_stopping, "batch_size": 16}
    one, other = kind(**settings).fit(x, y, sample_weight=weight), kind(**settings).fit(x[times], y[times])
    assert (one.predict(x) == other.predict(x)).all()
    assert one.history_["elbo"] == other.history_["elbo"]
    assert one.n_rows_seen_ == other.n_rows_seen_
    assert early_stopping or one.n_rows_seen_ == weight.sum()
    assert one.history_["elbo"] != kind(**settings).fit(x, y).history_["elbo"]


@pytest.mark.parametrize("inner", [Gaussian(2), Gaussian(1, "input"), Categorical(3)])
def test_weighted_densities_are_those_of_repeated_rows(inner: Likelihood) -> None:
    torch.manual_seed(0)
    f, times = torch.randn(5, inner.features), torch.tensor([1, 3, 2, 5, 1])
    y = torch.randint(3, (5,)) if isinstance(inner, Categorical) else torch.randn(5, inner.outputs)
    weighted = Weighted(inner)
    targets = weighted.targets(with_weights(y, times.float()))
    rows = torch.arange(5).repeat_interleave(times)
    repeated = inner.log_prob(f[rows], inner.targets(y[rows])).sum()
    torch.testing.assert_close(weighted.log_prob(f, targets).sum(), repeated)
    torch.testing.assert_close(weighted.mean(f), inner.mean(f))
    torch.testing.assert_close(weighted.variance(f), inner.variance(f))
    assert weighted.features == inner.features
    assert weighted.noise == inner.noise


def test_merged_rows_are_a_table_of_counts() -> None:
    rng = np.random.RandomState(0)
    x, y = rng.randint(0, 2, (200, 2)).astype(float), rng.randint(0, 2, 200).astype(float)
    rows = merged(x, y, np.ones(200))
    table = np.column_stack([x, y])
    values, counts = np.unique(table, axis=0, return_counts=True)
    found = {(*a, *b): w for a, b, w in zip(rows.x.tolist(), rows.y.tolist(), rows.weight.tolist(), strict=True)}
    assert found == {tuple(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def test_scaling_is_that_of_repeated_rows() -> None:
    rng = np.random.RandomState(0)
    values, times = rng.randn(20, 2) * 3.0 + 7.0, rng.randint(1, 4, 20)
    scaling, repeated = Scaling.of(values, times.astype(float)), np.repeat(values, times, axis=0)
    np.testing.assert_allclose(scaling.mean, repeated.mean(0))
    np.testing.assert_allclose(scaling.scale, repeated.std(0))
    np.testing.assert_allclose(scaling.back(scaling.forward(values)), values)


@pytest.mark.parametrize("kind", [WHVIRegressor, WHVIClassifier])
def test_weights_that_cannot_be(kind: Any) -> None:
    x, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match="zero"):
        kind(**QUICK).fit(x, y, sample_weight=np.zeros(4))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        kind(**QUICK).fit(x, y, sample_weight=[1, 1, 1, -1])
