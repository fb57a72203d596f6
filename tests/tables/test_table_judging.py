"""Metrics of held-out rows, against scikit-learn and against formulas written down again."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from whvi_tables.judging import LEVELS, Classes, Metric, Numbers


@pytest.fixture
def numbers() -> Numbers:
    """A law that is known: N(mean, 2), and targets drawn from it."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=4000) * 5
    law = stats.norm(mean, 2.0)
    y = law.rvs(random_state=rng)
    low, high = law.interval(0.8)
    quantiles = stats.norm(mean[:, None], 2.0).ppf(LEVELS)
    return Numbers(np.arange(4000), y, mean, np.full(4000, 2.0), low, high, 0.8, quantiles, law.logpdf(y), 3 * y[:50])


def test_numbers(numbers: Numbers) -> None:
    found = {metric.name: metric for metric in numbers.metrics}
    y, mean, learned = numbers.y, numbers.mean, numbers.learned
    always = np.full_like(y, learned.mean())
    wanted = {
        "RMSE": [reference.root_mean_squared_error(y, guess) for guess in (mean, always)],
        "MAE": [reference.mean_absolute_error(y, guess) for guess in (mean, always)],
        "R²": [reference.r2_score(y, guess) for guess in (mean, always)],
        "MNLL": [-stats.norm(guess, std).logpdf(y).mean() for guess, std in ((mean, 2.0), (always, learned.std()))],
    }
    for name, pair in wanted.items():
        assert [found[name].value, found[name].baseline] == pytest.approx(pair)
        assert found[name].wins
    assert found["coverage of 80 % intervals"].value == pytest.approx(0.8, abs=0.02)
    assert found["width of 80 % intervals"].value == pytest.approx(2 * 1.2816 * 2.0, rel=1e-4)
    assert found["width of 80 % intervals"].wins is None


def test_calibrated_numbers_are_calibrated(numbers: Numbers) -> None:
    assert numbers.observed == pytest.approx(LEVELS, abs=0.02)
    assert numbers.hits.mean() == pytest.approx(0.8, abs=0.02)


def test_classes() -> None:
    rng = np.random.default_rng(0)
    names = ("a", "b", "c")
    given = rng.dirichlet([0.5, 0.5, 0.5], 500)
    y = np.array([rng.choice(names, p=row) for row in given])
    learned = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 10)
    found = Classes(np.arange(500), y, names, given, learned)
    always = np.tile([0.6, 0.3, 0.1], (500, 1))
    by_name = {metric.name: metric for metric in found.metrics}
    wanted = {
        "accuracy": [np.mean(y == np.array(names)[guess.argmax(1)]) for guess in (given, always)],
        "MNLL": [reference.log_loss(y, guess, labels=names) for guess in (given, always)],
        "Brier score": [
            reference.brier_score_loss(y, guess, labels=names, scale_by_half=False) for guess in (given, always)
        ],
    }
    for name, pair in wanted.items():
        assert [by_name[name].value, by_name[name].baseline] == pytest.approx(pair)
    assert by_name["ECE"].value < 0.1
    assert by_name["ECE"].wins is None
    assert found.entropy == pytest.approx(stats.entropy(given, axis=1))


@pytest.mark.parametrize(
    ("goal", "baseline", "wins"),
    [("low", 2.0, True), ("low", 0.5, False), ("high", 0.5, True), ("high", 1.0, False), ("low", None, None)],
)
def test_who_wins(goal: str, baseline: float | None, wins: bool | None) -> None:
    assert Metric("name", 1.0, baseline, goal, "").wins is wins
