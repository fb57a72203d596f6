"""A last layer integrated out: its law is that of the layer itself."""

import pytest
import torch

from whvi.errors import UnsupportedError
from whvi_paper.collapsed import Marginal, with_one

WIDTH, VARIANCE = 3, 0.2


@pytest.fixture
def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features and targets of 6 rows, and features of 2 other ones; float64."""
    generator = torch.Generator().manual_seed(0)
    features, y, elsewhere = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((6, WIDTH), (6, 1), (2, WIDTH))
    )
    return features, y, elsewhere


def covariance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of the values of a last layer with weights and bias from N(0, 1)."""
    return a @ b.T + 1.0


def test_rows_sum_to_the_law_of_all_targets(problem: tuple[torch.Tensor, ...]) -> None:
    features, y, _ = problem
    law = torch.distributions.MultivariateNormal(
        torch.zeros(6, dtype=y.dtype), covariance(features, features) + VARIANCE * torch.eye(6)
    )
    rows = Marginal(WIDTH, VARIANCE).log_prob(features, y)
    assert rows.shape == (6,)
    assert float(rows.sum()) == pytest.approx(float(law.log_prob(y[:, 0])), abs=1e-5)  # the variance is float32


def test_rows_are_conditional_on_those_before(problem: tuple[torch.Tensor, ...]) -> None:
    features, y, _ = problem
    likelihood = Marginal(WIDTH, VARIANCE)
    rows, first = likelihood.log_prob(features, y), likelihood.log_prob(features[:4], y[:4])
    assert torch.allclose(rows[:4], first)


def test_copies_of_a_network_are_apart(problem: tuple[torch.Tensor, ...]) -> None:
    features, y, _ = problem
    likelihood, both = Marginal(WIDTH, VARIANCE), torch.stack([features, 2.0 * features])
    one_by_one = torch.stack([likelihood.log_prob(f, y) for f in both])
    assert torch.allclose(likelihood.log_prob(both, y), one_by_one)
    assert torch.allclose(torch.func.vmap(likelihood.log_prob, (0, None))(both, y), one_by_one)


def test_functions_have_the_law_of_a_gaussian_process(problem: tuple[torch.Tensor, ...]) -> None:
    features, y, elsewhere = problem
    gain = torch.linalg.solve(covariance(features, features) + VARIANCE * torch.eye(6), covariance(features, elsewhere))
    mean = (gain.T @ y).squeeze(-1)
    spread = covariance(elsewhere, elsewhere) - gain.T @ covariance(features, elsewhere)
    torch.manual_seed(0)
    copies = 20_000
    drawn = Marginal(WIDTH, VARIANCE).functions(features.expand(copies, -1, -1), y, elsewhere.expand(copies, -1, -1))
    assert drawn.shape == (copies, 2)
    assert torch.allclose(drawn.mean(0), mean, atol=0.03 * float(spread.diagonal().sqrt().max()))
    assert torch.allclose(drawn.T.cov(), spread, atol=0.04 * float(spread.diagonal().max()))


def test_features_alone_predict_nothing() -> None:
    likelihood = Marginal(WIDTH, VARIANCE)
    for call in (likelihood.mean, likelihood.variance, likelihood.sample):
        with pytest.raises(UnsupportedError, match="draw last layers"):
            call(torch.zeros(2, WIDTH))


def test_the_bias_is_a_weight_of_one() -> None:
    assert with_one(torch.zeros(2, 5, WIDTH)).sum(-1).unique().tolist() == [1.0]
