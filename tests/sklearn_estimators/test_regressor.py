"""Laws of WHVIRegressor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from whvi.errors import ArgumentError, InputTypeError, ShapeError, WhviError
from whvi.inference.compiled import can_compile
from whvi.inference.seeds import mix
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.predictive import predict
from whvi.sklearn import WHVIRegressor
from whvi.sklearn.held_out import apart
from whvi.sklearn.training import Training, TrainingData, go_on, make_network, train

Table = tuple[NDArray[np.float64], NDArray[np.float64]]
QUICK: dict[str, Any] = {
    "n_members": 1,
    "hidden_layer_sizes": (16,),
    "max_steps": 60,
    "learning_rate": 0.05,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, (150, 3))
    return x, 50.0 + 10.0 * np.sin(x[:, 0]) + rng.randn(150)


@pytest.fixture(scope="module", params=["constant", "input"])
def fitted(request: pytest.FixtureRequest, table: Table) -> WHVIRegressor:
    return WHVIRegressor(**QUICK, noise=request.param).fit(*table)


def test_it_learns_and_its_intervals_hold_what_they_say(table: Table) -> None:
    x, y = table
    model = WHVIRegressor((32,), n_members=1, max_steps=200, learning_rate=0.05, random_state=0).fit(x[:100], y[:100])
    assert model.score(x[100:], y[100:]) > 0.9
    low, high = model.predict_interval(x[100:], level=0.9)
    assert 0.75 <= np.mean((low <= y[100:]) & (y[100:] <= high)) <= 1.0
    assert np.mean(high - low) < 10.0  # of a range of 20


def test_density_integrates_to_one_and_has_the_moments_that_predict_gives(fitted: WHVIRegressor, table: Table) -> None:
    row = table[0][:1]
    mean, std = fitted.predict(row, return_std=True)
    values = np.linspace(mean[0] - 12 * std[0], mean[0] + 12 * std[0], 1001)
    density, step = np.exp(fitted.log_prob(np.repeat(row, 1001, axis=0), values)), values[1] - values[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-4)
    assert (density * values).sum() * step == pytest.approx(mean[0], abs=1e-3 * std[0])
    assert np.sqrt((density * (values - mean[0]) ** 2).sum() * step) == pytest.approx(std[0], rel=1e-2)
    low, high = fitted.predict_interval(row, level=0.8)
    assert density[(values >= low) & (values <= high)].sum() * step == pytest.approx(0.8, abs=0.02)


def test_quantiles_are_in_order_and_their_ends_are_the_interval(fitted: WHVIRegressor, table: Table) -> None:
    found = fitted.predict_quantiles(table[0], [0.05, 0.5, 0.95])
    assert found.shape == (150, 3)
    assert (np.diff(found, axis=1) > 0.0).all()
    low, high = fitted.predict_interval(table[0], 0.9)
    np.testing.assert_allclose(found[:, 0], low, rtol=1e-6)
    np.testing.assert_allclose(found[:, 2], high, rtol=1e-6)


def test_drawn_targets_have_the_predictive_moments(fitted: WHVIRegressor, table: Table) -> None:
    mean, std = fitted.predict(table[0], return_std=True)
    drawn = fitted.sample_y(table[0], 1000, random_state=1)
    assert drawn.shape == (150, 1000)
    # Means of 64 functions against 1000: the former have a standard error of std / 8 at most.
    assert np.abs((drawn.mean(1) - mean) / std).max() < 0.5
    assert 0.85 < np.median(drawn.std(1) / std) < 1.15
    assert (drawn == fitted.sample_y(table[0], 1000, random_state=1)).all()
    assert (drawn != fitted.sample_y(table[0], 1000, random_state=2)).any()


def test_units_of_the_table_have_no_say(table: Table) -> None:
    x, y = table
    plain = WHVIRegressor(**QUICK).fit(x, y)
    scaled = WHVIRegressor(**QUICK).fit(x * 8.0 - 64.0, y * 1024.0)  # powers of two: the same bits when standardised
    np.testing.assert_allclose(scaled.predict(x * 8.0 - 64.0), plain.predict(x) * 1024.0, rtol=1e-3)
    log_prob = plain.log_prob(x, y) - np.log(1024.0)
    np.testing.assert_allclose(scaled.log_prob(x * 8.0 - 64.0, y * 1024.0), log_prob, atol=0.05)


def test_constant_columns_and_targets_do_no_harm(table: Table) -> None:
    x, _ = table
    with_constant = np.column_stack([x, np.full(len(x), 1e6 + 0.1)])
    model = WHVIRegressor(**QUICK).fit(with_constant, np.full(len(x), 3.0))
    assert np.isfinite(model.log_prob(with_constant, np.full(len(x), 3.0))).all()
    assert np.abs(model.predict(with_constant) - 3.0).max() < 1.0


def test_spread_is_that_of_errors_on_rows_kept_apart(table: Table) -> None:
    x, y = table
    assert (WHVIRegressor(**QUICK, calibrate=False).fit(x, y).spread_ == 1.0).all()
    model = WHVIRegressor(**QUICK, samples=256).fit(x, y)
    order = np.lexsort(np.column_stack([x, y]).T)[apart(len(x), 0.1, model.seed_)]
    mean, std = model.predict(x[order], return_std=True)
    errors = np.square((y[order] - mean) / (std / model.spread_))  # in standard deviations before they were spread
    assert model.spread_**2 == pytest.approx((10.0 + errors.sum()) / (10.0 + 15.0), rel=0.05)  # other functions, so 5 %


def test_several_outputs(table: Table) -> None:
    x, y = table
    both = np.column_stack([y, -1000.0 * x[:, 1]])
    model = WHVIRegressor((32,), n_members=1, max_steps=200, learning_rate=0.05, random_state=0).fit(x, both)
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == (150, 2)
    assert model.score(x, both) > 0.9
    assert model.predict_quantiles(x, [0.1, 0.9]).shape == (150, 2, 2)
    assert model.sample_y(x, 5).shape == (150, 2, 5)
    assert [end.shape for end in model.predict_interval(x)] == [(150, 2)] * 2
    assert model.log_prob(x, both).shape == (150,)
    assert WHVIRegressor(**QUICK).fit(x, y[:, None]).predict(x).shape == (150, 1)


def test_same_seed_same_fit_and_the_caller_keeps_the_generators(table: Table) -> None:
    x, y = table
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 (the global one is what is looked at)
    one = WHVIRegressor(**QUICK).fit(x, y).predict(x)
    order = np.random.RandomState(3).permutation(len(x))
    other = WHVIRegressor(**QUICK).fit(x[order], y[order]).predict(x)
    assert (one == other).all()
    assert (one != WHVIRegressor(**{**QUICK, "random_state": 1}).fit(x, y).predict(x)).any()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002


def test_prediction_does_not_depend_on_the_rows_beside(fitted: WHVIRegressor, table: Table) -> None:
    whole = fitted.predict(table[0])
    alone = np.concatenate([fitted.predict(row[None]) for row in table[0][:5]])
    np.testing.assert_allclose(alone, whole[:5], rtol=1e-12)


def test_partial_fit_learns_a_stream_and_counts_its_rows(table: Table) -> None:
    x, y = table
    model = WHVIRegressor((32,), n_members=1, batch_size=32, learning_rate=0.05, random_state=0)
    for _ in range(20):
        for rows in np.split(np.arange(150), 3):
            model.partial_fit(x[rows], y[rows])
    assert model.score(x, y) > 0.8
    assert model.n_rows_seen_ == 20 * 150
    assert model.history_["step"] == [2 * (i + 1) for i in range(60)]
    with pytest.raises(ShapeError, match="2 outputs"):
        model.partial_fit(x, np.column_stack([y, y]))


def test_a_chunk_of_a_stream_stands_for_all_rows_seen() -> None:
    """Its log-likelihood counts in proportion to the rows seen, the KL once: the bound is linear in them."""
    x, likelihood = torch.linspace(-1.0, 1.0, 20).unsqueeze(-1), Gaussian()
    bounds = []
    for seen in (20.0, 40.0, 60.0):
        model = make_network(1, (8,), likelihood, "diagonal", 0)
        data, settings = TrainingData(x, x.clone(), torch.ones(20)), Training(1, 20, 1e-6, seed=0)
        bounds.append(go_on([(model, likelihood)], [data], seen, settings, None)[0]["elbo"][0])
    assert bounds[2] - bounds[1] == pytest.approx(bounds[1] - bounds[0], rel=1e-3)
    assert bounds[1] - bounds[0] < -1.0


def test_early_stopping_keeps_the_best() -> None:
    x = torch.linspace(-1.0, 1.0, 40).unsqueeze(-1)
    y = x.sin() + 0.3 * torch.randn(40, 1)
    data, looks = TrainingData(x[::2], y[::2], torch.ones(20)), TrainingData(x[1::2], y[1::2], torch.ones(20))
    likelihood = Gaussian()
    model, settings = make_network(1, (32,), likelihood, "diagonal", 0), Training(2000, 20, 0.05, seed=0, patience=2)
    found = train([(model, likelihood)], [data], looks, settings)
    values = found["validation_mnll"]
    assert found["step"][-1] < 2000
    assert len(values) - 1 - int(np.argmin(values)) == 2  # the second look in a row that is no better
    own = predict(model, looks.x, 16, likelihood=likelihood, seed=mix(0, "validation"))
    assert float(own.mnll(looks.y)) == pytest.approx(min(values), rel=1e-6)


def test_weights_of_validation_rows_count_relative_to_their_mean() -> None:
    x = torch.linspace(-1.0, 1.0, 20).unsqueeze(-1)
    data, settings = TrainingData(x, x.clone(), torch.ones(20)), Training(50, 20, 0.01, seed=0)

    def looks(weight: torch.Tensor) -> list[float]:
        likelihood = Gaussian()
        model = make_network(1, (8,), likelihood, "diagonal", 0)
        looked_at = TrainingData(x, x + 0.5 * (x > 0), weight)
        return train([(model, likelihood)], [data], looked_at, settings)["validation_mnll"]

    once, thrice = looks(torch.ones(20)), looks(torch.full((20,), 3.0))
    assert once == pytest.approx(thrice, rel=1e-6)
    left = looks(1.0 + 9.0 * (x[:, 0] < 0))
    assert left[-1] < once[-1]  # where targets are as in training


def test_early_stopping_in_a_fit(table: Table) -> None:
    x, y = table
    model = WHVIRegressor(
        (16,), n_members=1, early_stopping=True, patience=3, max_steps=300, learning_rate=0.05, random_state=0
    )
    history = model.fit(x, y).history_
    assert len(history["step"]) == len(history["elbo"]) == len(history["validation_mnll"])
    if history["step"][-1] < 300:
        best = int(np.argmin(history["validation_mnll"]))
        assert len(history["step"]) - 1 - best == 3
    chosen = apart(len(x), 0.1, model.seed_)
    assert chosen.sum() == 15
    order = np.lexsort(np.column_stack([x, y]).T)[chosen]  # rows are in an order of their own
    assert -model.log_prob(x[order], y[order]).mean() == pytest.approx(min(history["validation_mnll"]), abs=0.3)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hidden_layer_sizes": ()}, ArgumentError),
        ({"hidden_layer_sizes": (8, 0)}, ArgumentError),
        ({"hidden_layer_sizes": "8"}, InputTypeError),
        ({"max_steps": 0}, ArgumentError),
        ({"max_steps": 2.5}, InputTypeError),
        ({"batch_size": 0}, ArgumentError),
        ({"learning_rate": 0.0}, ArgumentError),
        ({"learning_rate": "fast"}, InputTypeError),
        ({"samples": 0}, ArgumentError),
        ({"noise": "loud"}, ArgumentError),
        ({"posterior": "round"}, ArgumentError),
        ({"posterior": 3}, InputTypeError),
        ({"terms": 0}, ArgumentError),
        ({"validation_fraction": 1.0}, ArgumentError),
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it(
    change: dict[str, Any], error: type[Exception], table: Table
) -> None:
    with pytest.raises(error, match=next(iter(change))):
        WHVIRegressor(**{**QUICK, **change}).fit(np.eye(4), np.arange(4.0))


def test_one_draw_is_of_the_predictive_law_as_many_are(table: Table) -> None:
    x = table[0][:20]
    model = WHVIRegressor(**QUICK, noise="constant", samples=128).fit(*table)
    model.spread_ = np.array([2.0])
    with torch.no_grad():
        model.likelihood_.log_variance.fill_(-20.0)  # no noise: all there is to spread are the functions
    _, std = model.predict(x, return_std=True)
    single = np.concatenate([model.sample_y(x, 1, random_state=seed) for seed in range(150)], axis=1)
    for drawn in (single, model.sample_y(x, 150)):
        assert np.median(drawn.std(1) / std) == pytest.approx(1.0, abs=0.2)


def test_the_weight_reaches_the_network_and_its_folder(table: Table, tmp_path: Path) -> None:
    model = WHVIRegressor(**QUICK, terms=2, layout="grid", block=1).fit(*table)
    plans = [layer.plan for layer in model.model_ if isinstance(layer, WHVILinear)]
    assert [(plan.terms, plan.layout, plan.size) for plan in plans] == [(2, "grid", 1)]
    model.save(tmp_path / "model")
    assert (WHVIRegressor.load(tmp_path / "model").predict(table[0]) == model.predict(table[0])).all()


@pytest.mark.skipif(not can_compile(), reason="there is no C++ compiler, which Inductor needs")
def test_a_compiled_fit_is_the_fit_within_rounding(table: Table) -> None:
    eager, compiled = (WHVIRegressor(**{**QUICK, "max_steps": 20}, compile=c).fit(*table) for c in (False, True))
    np.testing.assert_allclose(compiled.history_["elbo"], eager.history_["elbo"], rtol=1e-3)
    np.testing.assert_allclose(compiled.predict(table[0]), eager.predict(table[0]), rtol=1e-2, atol=1e-3)


def test_looks_are_fifty_at_most(table: Table) -> None:
    for steps, looks in ((40, 40), (99, 50), (120, 40)):
        history = WHVIRegressor(**{**QUICK, "max_steps": steps}).fit(*table).history_
        assert len(history["step"]) == looks
        assert history["step"][-1] == steps


def test_one_level_is_that_of_a_list_of_one(fitted: WHVIRegressor, table: Table) -> None:
    wanted = fitted.predict_quantiles(table[0], [0.3])[:, 0]
    for level in (0.3, np.float64(0.3), np.array(0.3)):
        np.testing.assert_array_equal(fitted.predict_quantiles(table[0], level), wanted)
    np.testing.assert_array_equal(fitted.predict_quantiles(table[0], np.array([0.3]))[:, 0], wanted)
    with pytest.raises(InputTypeError, match="levels of quantiles"):
        fitted.predict_quantiles(table[0], "median")  # type: ignore[arg-type]


def test_densities_are_of_one_target_for_each_row(fitted: WHVIRegressor, table: Table) -> None:
    x, y = table
    np.testing.assert_array_equal(fitted.log_prob(x, y[:, None]), fitted.log_prob(x, y))
    for wrong in (y[:-1], np.concatenate([y, y]), np.column_stack([y, y])):
        with pytest.raises(ShapeError, match=r"y has shape .* but targets of X have \(150,\)"):
            fitted.log_prob(x, wrong)


@pytest.mark.parametrize(
    ("change", "features", "error"),
    [
        ({"max_steps": 0}, 5, ArgumentError),
        ({"posterior": "round"}, 5, ArgumentError),
        ({"learning_rate": 1e30}, 3, ArithmeticError),
    ],
)
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(
    change: dict[str, Any], features: int, error: type[Exception], table: Table
) -> None:
    x, y = table
    model = WHVIRegressor(**QUICK).fit(x, y)
    wanted, attributes = model.predict(x), set(vars(model))
    model.set_params(**change)
    with pytest.raises(error):
        model.fit(np.ones((4, features)) * np.arange(4.0)[:, None], np.arange(8.0).reshape(4, 2))
    assert (model.set_params(**QUICK).predict(x) == wanted).all()
    assert set(vars(model)) == attributes


def test_a_part_that_cannot_be_learned_leaves_the_stream_as_it_was(table: Table) -> None:
    x, y = table
    model, other = (WHVIRegressor(**QUICK).partial_fit(x, y) for _ in range(2))
    model.set_params(learning_rate=1e30)
    with pytest.raises(ArithmeticError):
        model.partial_fit(x, y)
    model.set_params(**QUICK)
    assert (model.predict(x) == other.predict(x)).all()
    assert (model.partial_fit(x, y).predict(x) == other.partial_fit(x, y).predict(x)).all()
    assert model.n_rows_seen_ == 300


def test_huge_numbers_are_errors_that_say_so(fitted: WHVIRegressor, table: Table) -> None:
    x, y = (values.copy() for values in table)
    x[7, 1] = 1e300
    with pytest.raises(ArgumentError, match=r"column 1 has numbers up to 1e\+300"):
        WHVIRegressor(**QUICK).fit(x, y)
    for ask in (lambda: fitted.predict(x, return_std=True), lambda: fitted.log_prob(x, y)):
        with pytest.raises(ArgumentError, match="1 of 150 predictions are not finite, the first of row 7"):
            ask()


@pytest.mark.parametrize("flag", ["early_stopping", "calibrate", "verbose", "compile"])
@pytest.mark.parametrize("value", ["False", [], None, 1], ids=str)
def test_flags_are_true_or_false(flag: str, value: Any) -> None:
    with pytest.raises(WhviError, match=rf"{flag} must be True(, False)? or"):
        WHVIRegressor(**{**QUICK, flag: value}).fit(np.zeros((4, 1)), np.zeros(4))


def test_scores_are_those_of_what_is_predicted(fitted: WHVIRegressor, table: Table) -> None:
    x, y = table
    low, high = fitted.predict_interval(x, level=0.8)
    missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    assert fitted.interval_score(x, y, level=0.8) == pytest.approx(np.mean(high - low + 10.0 * missed))
    drawn = fitted.sample_y(x, 400, random_state=1)
    between = np.abs(drawn[:, :200] - drawn[:, 200:]).mean()
    assert fitted.crps(x, y) == pytest.approx(np.abs(drawn - y[:, None]).mean() - 0.5 * between, rel=0.05)
    frozen = y.copy()
    frozen.flags.writeable = False  # as pandas gives them
    for score in (fitted.crps, fitted.interval_score):
        assert score(x, y[:, None]) == score(x, y) == score(x, frozen)
        with pytest.raises(ShapeError, match="give one each"):
            score(x, y[:-1])
