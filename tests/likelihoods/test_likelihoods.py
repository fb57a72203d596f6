"""Likelihoods against torch.distributions, and their moments against their own draws."""

import pytest
import torch
from torch import Tensor
from torch import distributions as td

from whvi.errors import ArgumentError, ShapeError, WhviError
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood

ROWS = 5


def gaussian(noise: str, outputs: int) -> Gaussian:
    likelihood = Gaussian(outputs, noise, variance=0.3)
    torch.nn.init.normal_(likelihood.log_variance)
    return likelihood


CASES: dict[str, Likelihood] = {
    "scalar": gaussian("scalar", 2),
    "output": gaussian("output", 2),
    "input": gaussian("input", 2),
    "one output": gaussian("scalar", 1),
    "categorical": Categorical(4),
    "bernoulli": Bernoulli(3),
}


def law(likelihood: Likelihood, f: Tensor) -> td.Distribution:
    if isinstance(likelihood, Gaussian):
        log_variance = likelihood.log_variance.detach().to(f)
        if likelihood.kind == "input":
            log_variance = log_variance + f[..., likelihood.outputs :]
        return td.Independent(td.Normal(f[..., : likelihood.outputs], (0.5 * log_variance).exp()), 1)
    if isinstance(likelihood, Categorical):
        return td.Categorical(logits=f)
    return td.Independent(td.Bernoulli(logits=f), 1)


@pytest.fixture(params=CASES, ids=list(CASES))
def likelihood(request: pytest.FixtureRequest) -> Likelihood:
    return CASES[request.param]


@pytest.fixture
def f(likelihood: Likelihood) -> Tensor:
    return torch.randn(3, ROWS, likelihood.features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_log_prob_is_that_of_the_law(likelihood: Likelihood, f: Tensor) -> None:
    torch.manual_seed(0)
    y = law(likelihood, f[0]).sample()
    expected = law(likelihood, f).log_prob(y)
    assert expected.shape == (3, ROWS)
    torch.testing.assert_close(likelihood.log_prob(f, likelihood.targets(y)), expected)


def test_entropy_is_that_of_the_law(likelihood: Likelihood, f: Tensor) -> None:
    torch.testing.assert_close(likelihood.entropy(f), law(likelihood, f).entropy())


def test_moments_are_those_of_draws(likelihood: Likelihood, f: Tensor) -> None:
    count = 40_000
    draws = likelihood.sample(f[0].expand(count, *f[0].shape), torch.tensor(3))
    assert torch.equal(draws[0], likelihood.sample(f[0].expand(count, *f[0].shape), torch.tensor(3))[0])
    if isinstance(likelihood, Categorical):
        draws = torch.nn.functional.one_hot(draws, likelihood.outputs)
    draws = draws.double()
    mean, variance = likelihood.mean(f[0]), likelihood.variance(f[0])
    assert mean.shape == variance.shape == (ROWS, likelihood.outputs)
    assert ((draws.mean(0) - mean).abs() < 4.5 * (variance / count).sqrt()).all()
    spread = (draws - mean).square()
    error = spread.std(0) / count**0.5
    assert ((spread.mean(0) - variance).abs() < 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("noise", ["scalar", "output", "input"])
def test_cdf_of_a_gaussian(noise: str) -> None:
    likelihood = CASES[noise]
    f = torch.randn(ROWS, likelihood.features, dtype=torch.float64)
    y = torch.randn(ROWS, 2, dtype=torch.float64)
    base = law(likelihood, f)
    assert isinstance(base, td.Independent)
    torch.testing.assert_close(likelihood.cdf(f, y), base.base_dist.cdf(y))


def test_classes_have_no_quantiles() -> None:
    with pytest.raises(WhviError, match="no order"):
        Categorical(3).cdf(torch.zeros(1, 3), torch.zeros(1))


def test_noise_is_one_parameter_and_learns() -> None:
    likelihood = Gaussian()
    assert [p.numel() for p in likelihood.parameters()] == [1]
    optimizer = torch.optim.Adam(likelihood.parameters(), lr=0.1)
    residual = 0.7 * torch.randn(10_000, 1, generator=torch.Generator().manual_seed(0))
    for _ in range(200):
        optimizer.zero_grad()
        (-likelihood.log_prob(torch.zeros_like(residual), residual).mean()).backward()
        optimizer.step()
    assert likelihood.noise == pytest.approx(float(residual.square().mean().sqrt()), rel=1e-3)


def test_fixed_noise_is_no_parameter() -> None:
    likelihood = Gaussian(variance=0.25, learned=False)
    assert list(likelihood.parameters()) == []
    assert likelihood.noise == pytest.approx(0.5)
    assert "log_variance" in likelihood.state_dict()


def test_gaussian_in_half_precision_is_computed_as_f_is() -> None:
    f = torch.zeros(3, 1, dtype=torch.bfloat16)
    assert Gaussian().log_prob(f, f).dtype == torch.bfloat16


BAD = {
    "nan": (Gaussian(), torch.tensor([1.0, float("nan")]), "NaN or inf in 1 of 2 rows"),
    "inf": (Gaussian(2), torch.tensor([[1.0, float("inf")], [0.0, 0.0]]), "NaN or inf in 1 of 2 rows"),
    "outputs": (Gaussian(2), torch.zeros(3, 1), r"\(rows, 2\)"),
    "one-dimensional": (Gaussian(2), torch.zeros(3), r"\(rows, 2\)"),
    "list": (Gaussian(), [1.0], "torch.Tensor"),
    "label too large": (Categorical(3), torch.tensor([0, 3]), r"0 \.\.\. 2"),
    "label negative": (Categorical(3), torch.tensor([-1, 2]), r"0 \.\.\. 2"),
    "label of float": (Categorical(3), torch.tensor([0.0, 1.0]), r"y.long\(\)"),
    "label table": (Categorical(3), torch.zeros(3, 3, dtype=torch.long), r"\(rows,\)"),
    "label table of positions": (
        Categorical(3),
        torch.zeros(3, 3, dtype=torch.long),
        r"Categorical\(..., positions=1\)",
    ),
    "series": (Gaussian(2), torch.zeros(3, 5, 2), r"\(rows, 2\); .* use Gaussian\(..., positions=1\)"),
    "rows": (Gaussian(2, positions=1), torch.zeros(3, 2), r"\(rows, positions, 2\)"),
    "label of padding": (Categorical(3, positions=1), torch.tensor([[0, -100]]), "by ignore_index"),
    "other padding": (Categorical(3, ignore_index=-100), torch.tensor([0, -1]), r"0 \.\.\. 2"),
    "label list": (Categorical(3), [0, 1], "torch.Tensor"),
    "not binary": (Bernoulli(), torch.tensor([0.0, 0.5]), "0 or 1"),
}


@pytest.mark.parametrize(("likelihood", "y", "message"), BAD.values(), ids=list(BAD))
def test_bad_targets_are_explained(likelihood: Likelihood, y: Tensor, message: str) -> None:
    with pytest.raises(WhviError, match=message):
        likelihood.targets(y)


def test_good_targets_are_brought_into_shape() -> None:
    assert Gaussian().targets(torch.zeros(3)).shape == (3, 1)
    assert Gaussian().targets(torch.zeros(3, dtype=torch.int64)).dtype == torch.float32
    assert Categorical(3).targets(torch.zeros(3, 1, dtype=torch.int32)).shape == (3,)
    assert Categorical(3).targets(torch.zeros(3, dtype=torch.int32)).dtype == torch.int64
    assert Bernoulli().targets(torch.tensor([True, False])).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(0), "at least 1"),
        (lambda: Gaussian(noise="none"), "scalar, output, input"),
        (lambda: Gaussian(variance=0.0), "positive and finite"),
        (lambda: Gaussian(variance="1"), "number"),
        (lambda: Gaussian(frozen_steps=-1), "at least 0"),
        (lambda: Categorical(1), "at least 2"),
        (lambda: Bernoulli(True), "must be an int"),
        (lambda: Gaussian(2).check(torch.zeros(3, 1)), "2 outputs"),
    ],
)
def test_bad_settings_are_explained(make: object, message: str) -> None:
    with pytest.raises(WhviError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["scalar", "output", "input", "one output", "bernoulli"])
def test_targets_of_another_shape_are_not_broadcast(name: str) -> None:
    """(N,) against (N, 1) would be every row with every target."""
    likelihood = CASES[name]
    f = torch.zeros(ROWS, likelihood.features)
    for y in (torch.zeros(ROWS), torch.zeros(ROWS, likelihood.outputs + 1)):
        for method in (likelihood.log_prob, *([likelihood.cdf] if isinstance(likelihood, Gaussian) else [])):
            with pytest.raises(
                WhviError, match=rf"takes \(rows, {likelihood.outputs}\); likelihood.targets\(y\) gives"
            ):
                method(f, y)


@pytest.mark.parametrize(
    ("likelihood", "f", "y"),
    [
        (Bernoulli(), (4, 3), (4, 1)),
        (Gaussian(), (4, 3), (4, 1)),
        (Gaussian(), (4, 1), (1, 1)),
        (Gaussian(noise="input"), (4, 3), (4, 1)),
        (Gaussian(positions=1), (4, 5, 1), (4, 1, 1)),
        (Categorical(3), (4, 2), (4,)),
        (Categorical(3), (4, 3), (1,)),
        (Categorical(3, positions=1), (4, 5, 3), (4, 1)),
    ],
    ids=str,
)
def test_features_and_rows_that_do_not_fit_are_not_broadcast(
    likelihood: Likelihood, f: tuple[int, ...], y: tuple[int, ...]
) -> None:
    with pytest.raises(ShapeError, match=r"takes|for each row of f"):
        likelihood.log_prob(torch.zeros(f), torch.zeros(y, dtype=torch.int64))


def test_whole_numbers_are_kept_exactly_or_refused() -> None:
    large = torch.tensor([2**24, 2**24 + 1])
    with pytest.raises(ArgumentError, match=r"torch.float32 cannot represent 1 of its 2 whole numbers"):
        Gaussian().targets(large)
    assert Gaussian().targets(large.double()).flatten().tolist() == large.tolist()
    assert Gaussian().targets(large[:1]).item() == 2**24
