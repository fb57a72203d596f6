"""Scores of active learning against what they are defined as, and against an exact conjugate update."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi import acquire, errors
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import WHVILinear
from whvi.predictive import chunks
from whvi.testing import LinearGaussian

POOL, REFERENCE = 12, 9


def network(outputs: int, posterior: str = "diagonal") -> nn.Module:
    options: dict[str, Any] = {"posterior": posterior, "bias": posterior != "point", "dtype": torch.float64}
    return nn.Sequential(WHVILinear(3, 8, **options), nn.Tanh(), WHVILinear(8, outputs, **options))


def rows(count: int = POOL) -> Tensor:
    return torch.randn(count, 3, dtype=torch.float64)


def conditional_trace(f: Tensor, noise: Tensor, labelled: list[int], of: slice) -> float:
    """Sum of variances of f[:, of] once f[:, labelled] is seen with noise, by the textbook formula; f (S, numbers)."""
    covariance = f.T.cov(correction=0)
    seen = covariance[labelled][:, labelled] + noise[labelled].diag()
    across = covariance[:, labelled]
    left = covariance - across @ torch.linalg.inv(seen) @ across.T
    return float(left.diagonal()[of].sum())


class TestInformation:
    @pytest.mark.parametrize("likelihood", [Categorical(3), Bernoulli(1)])
    def test_bald_is_entropy_minus_expected_entropy(self, likelihood: Likelihood) -> None:
        model, pool = network(likelihood.features), rows()
        f = whvi.predict(model, pool, 50, seed=3).samples()
        p = f.softmax(-1) if isinstance(likelihood, Categorical) else torch.cat([f.sigmoid(), (-f).sigmoid()], -1)
        each = -(p * p.log()).sum(-1).mean(0)
        mean = p.mean(0)
        total = -(mean * mean.log()).sum(-1)
        arguments: dict[str, Any] = {"likelihood": likelihood, "samples": 50, "seed": 3}
        torch.testing.assert_close(acquire.predictive_entropy(model, pool, **arguments), total)
        torch.testing.assert_close(acquire.bald(model, pool, **arguments), total - each)

    def test_bald_lies_between_zero_and_the_entropy(self) -> None:
        model, pool, likelihood = network(4), rows(200), Categorical(4)
        score = acquire.bald(model, pool, likelihood=likelihood, seed=0)
        assert (score > 0).all()
        assert (score <= acquire.predictive_entropy(model, pool, likelihood=likelihood, seed=0)).all()

    def test_of_one_function_bald_is_zero(self) -> None:
        for model in (nn.Linear(3, 4, dtype=torch.float64), network(4, "point")):
            assert acquire.bald(model, rows(), likelihood=Categorical(4)).max() < 1e-12

    def test_of_gaussian_functions_bald_is_half_the_log_of_the_signal_to_noise(self) -> None:
        layer, pool = WHVILinear(3, 1, posterior="full", bias=False, dtype=torch.float64), rows()
        variance = (pool @ layer.weight_distribution().covariance.detach() @ pool.T).diagonal()
        found = acquire.bald(layer, pool, likelihood=Gaussian(variance=0.02), samples=4000, seed=1)
        torch.testing.assert_close(found, 0.5 * (1 + variance / 0.02).log(), rtol=0.05, atol=0.02)

    def test_label_of_pure_noise_is_worth_nothing(self) -> None:
        class Coin(nn.Module):
            """Disagrees about rows above zero, and knows that the others are tosses of a coin."""

            def __init__(self) -> None:
                super().__init__()
                self.one = WHVILinear(1, 1, bias=False, dtype=torch.float64)
                self.other = deepcopy(self.one)

            def forward(self, x: Tensor) -> Tensor:
                return 50.0 * (self.one(x) - self.other(x)).where(x > 0, 0.0)

        pool = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
        model, likelihood = Coin(), Bernoulli()
        score = acquire.bald(model, pool, likelihood=likelihood, seed=0)
        assert score[0] < 1e-12 < 0.01 < score[1]
        assert acquire.predictive_entropy(model, pool, likelihood=likelihood, seed=0).argmax() == 0


class TestVarianceReduction:
    @pytest.mark.parametrize("outputs", [1, 2])
    @pytest.mark.parametrize("noise", ["output", "input"])
    def test_equals_the_update_of_a_gaussian_with_the_covariance_of_the_functions(
        self, outputs: int, noise: str
    ) -> None:
        likelihood = Gaussian(outputs, noise, variance=0.05).double()
        model, pool, reference = network(likelihood.features), rows(), rows(REFERENCE)
        found = acquire.variance_reduction(model, pool, reference, likelihood=likelihood, samples=40, seed=5)
        both = whvi.predict(model, torch.cat([pool, reference]), 40, likelihood=likelihood, seed=5)
        f = likelihood.mean(both.samples()).flatten(1)
        others = slice(POOL * outputs, None)
        before = float(f[:, others].var(0, correction=0).sum())
        labels = [list(range(row * outputs, (row + 1) * outputs)) for row in range(POOL)]
        after = [conditional_trace(f, both.aleatoric.detach().flatten(), label, others) for label in labels]
        torch.testing.assert_close(found, (before - torch.tensor(after, dtype=torch.float64)) / REFERENCE)

    def test_is_that_of_the_exact_conjugate_posterior(self) -> None:
        layer = WHVILinear(3, 1, posterior="full", bias=False, dtype=torch.float64)
        pool, reference = rows(), rows(REFERENCE)
        prior, noise, label = layer.weight_distribution().covariance.detach(), 0.05, torch.zeros(1).double()
        problems = [LinearGaussian(row[None], label, noise, prior) for row in pool]

        def mean_variance(covariance: Tensor) -> Tensor:
            return (reference @ covariance @ reference.T).diagonal().mean()

        exact = [mean_variance(prior) - mean_variance(problem.posterior().covariance) for problem in problems]
        found = acquire.variance_reduction(
            layer, pool, reference, likelihood=Gaussian(variance=noise), samples=1500, seed=2
        )
        scale = float(mean_variance(prior))
        torch.testing.assert_close(found, torch.stack(exact), rtol=0.1, atol=0.01 * scale)

    def test_does_not_depend_on_pieces_and_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, pool, likelihood = network(1), rows(), Gaussian(variance=0.1)
        whole = acquire.variance_reduction(model, pool, likelihood=likelihood, samples=20, seed=1)
        order = torch.randperm(POOL)
        monkeypatch.setattr(chunks, "KEPT", 5 * 20)  # five rows at a time
        parts = acquire.variance_reduction(model, pool[order], likelihood=likelihood, samples=20, seed=1)
        torch.testing.assert_close(parts, whole[order])

    def test_knows_no_origin_and_scales_as_a_variance(self) -> None:
        class Changed(nn.Module):
            def __init__(self, model: nn.Module) -> None:
                super().__init__()
                self.model = model

            def forward(self, x: Tensor) -> Tensor:
                value: Tensor = 3.0 * self.model(x) + 7.0
                return value

        model, pool = network(1), rows()
        plain = acquire.variance_reduction(model, pool, likelihood=Gaussian(variance=0.1), seed=4)
        changed = acquire.variance_reduction(Changed(model), pool, likelihood=Gaussian(variance=0.9), seed=4)
        torch.testing.assert_close(changed, 9.0 * plain, rtol=1e-6, atol=0.0)

    def test_is_positive_and_below_the_variance_there_is(self) -> None:
        model, pool, likelihood = network(1), rows(50), Gaussian(variance=1e-4)
        score = acquire.variance_reduction(model, pool, likelihood=likelihood, seed=0)
        there_is = whvi.predict(model, pool, 256, seed=0).epistemic.mean()
        assert (score > 0).all()
        assert (score <= there_is).all()
        assert score.max() > 0.1 * there_is

    def test_of_one_function_is_zero(self) -> None:
        for model in (nn.Linear(3, 1, dtype=torch.float64), network(1, "point")):
            found = acquire.variance_reduction(model, rows(), likelihood=Gaussian(), samples=4)
            assert found.shape == (POOL,)
            assert found.abs().max() < 1e-25


class TestChoose:
    def test_rows_with_the_highest_scores_come_first(self) -> None:
        model, pool, likelihood = network(3), rows(), Categorical(3)
        for method, score in (("bald", acquire.bald), ("entropy", acquire.predictive_entropy)):
            scores = score(model, pool, likelihood=likelihood, samples=32, seed=0)
            found = acquire.choose(model, pool, 5, method, likelihood=likelihood, samples=32, seed=0)
            assert found.tolist() == sorted(range(POOL), key=lambda row: -scores[row])[:5]

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_variance_is_lowered_greedily(self, outputs: int) -> None:
        """Each choice is the best given those before it, with the update of the joint covariance done anew."""
        likelihood = Gaussian(outputs, "output", variance=0.02).double()
        model, pool, reference = network(outputs), rows(), rows(REFERENCE)
        found = acquire.choose(
            model, pool, 5, "variance", reference=reference, likelihood=likelihood, samples=40, seed=5
        ).tolist()
        f = whvi.predict(model, torch.cat([pool, reference]), 40, seed=5).samples().flatten(1)
        noise = torch.full((f.shape[1],), 0.02, dtype=torch.float64)
        for step in range(5):
            left = {}
            for row in set(range(POOL)) - set(found[:step]):
                labels = [number * outputs + k for number in (*found[:step], row) for k in range(outputs)]
                left[row] = conditional_trace(f, noise, labels, slice(POOL * outputs, None))
            assert left[found[step]] <= min(left.values()) * (1 + 1e-9)

    def test_variance_does_not_ask_the_same_twice(self) -> None:
        """Of a row and its copies one is enough, where scores of single rows would take them all."""
        model, likelihood = network(1), Gaussian(variance=1e-4)
        pool = rows()
        best = acquire.variance_reduction(model, pool, likelihood=likelihood, seed=0).argmax()
        crowd = torch.cat([pool, pool[best].expand(4, 3)])
        alike = {int(best), *range(POOL, POOL + 4)}
        arguments: dict[str, Any] = {"reference": pool, "likelihood": likelihood, "seed": 0}
        alone = acquire.highest(acquire.variance_reduction(model, crowd, **arguments), 4)
        together = acquire.choose(model, crowd, 4, "variance", **arguments)
        assert len(alike & set(alone.tolist())) == 4
        assert len(alike & set(together.tolist())) == 1

    def test_all_rows_are_a_permutation(self) -> None:
        model, pool = network(1), rows()
        for method in acquire.METHODS:
            found = acquire.choose(model, pool, POOL, method, likelihood=Gaussian(), samples=8)
            assert sorted(found.tolist()) == list(range(POOL))

    def test_of_equal_scores_the_first_is_taken(self) -> None:
        assert acquire.highest(torch.tensor([0.0, 2.0, 1.0, 2.0]), 3).tolist() == [1, 3, 2]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"count": 0}, errors.ArgumentError, "count must be at least 1, got 0"),
        ({"count": 13}, errors.ArgumentError, "count is 13, but the pool has 12 rows"),
        ({"count": 2.0}, errors.InputTypeError, "count must be an int"),
        ({"method": "random"}, errors.ArgumentError, "method must be one of bald, entropy, variance, got 'random'"),
        ({"samples": 0}, errors.ArgumentError, "samples must be at least 1, got 0"),
        ({"likelihood": None}, errors.UnsupportedError, "likelihood"),
        ({"pool": torch.zeros(0, 3).double()}, errors.WhviError, "pool"),
        ({"pool": torch.full((12, 3), torch.nan).double()}, errors.ArgumentError, "x has NaN or inf in 12 of 12 rows"),
        ({"method": "variance", "likelihood": Categorical(2)}, errors.UnsupportedError, "Gaussian noise, but there is"),
        ({"method": "variance", "reference": torch.zeros(0, 3).double()}, errors.ShapeError, "reference has no rows"),
        ({"reference": torch.zeros(2, 3).double()}, errors.ArgumentError, "reference is for the method 'variance'"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"model": network(1), "pool": rows(), "count": 2, "likelihood": Gaussian(), **change}
    with pytest.raises(error, match=message):
        acquire.choose(**arguments)


@pytest.mark.parametrize("method", acquire.METHODS)
def test_a_count_that_cannot_be_is_refused_before_any_work(method: str) -> None:
    class Untouched(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("the model was called")

    with pytest.raises(errors.ArgumentError, match="count is 13"):
        acquire.choose(Untouched(), rows(), 13, method, likelihood=Gaussian())


@pytest.mark.parametrize("method", acquire.METHODS)
def test_a_model_that_gives_nan_is_refused(method: str) -> None:
    class Broken(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * torch.where(x[:, :1] > x[0, 0] - 1e-9, torch.nan, 1.0)

    with pytest.raises(errors.WhviError, match="NaN"):
        acquire.choose(Broken(3, 1).double(), rows(), 2, method, likelihood=Gaussian())


@pytest.mark.parametrize(
    ("scores", "error"),
    [
        (torch.ones(2, 2), errors.ShapeError),
        (torch.tensor([torch.nan]), errors.ArgumentError),
        ([0.1, 0.2], errors.InputTypeError),
    ],
)
def test_scores_that_cannot_be_ordered_are_refused(scores: Tensor, error: type[Exception]) -> None:
    with pytest.raises(error):
        acquire.highest(scores, 1)
