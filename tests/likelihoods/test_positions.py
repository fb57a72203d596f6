"""Targets at positions of a row: what a row of many positions says is what its positions say as rows of their own."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from whvi.acquire import choose
from whvi.ensemble import Ensemble
from whvi.errors import ShapeError, UnsupportedError
from whvi.inference import SVI, elbo, fit
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import WHVILinear, sampling
from whvi.predictive import predict

N, POSITIONS, CLASSES = 5, (2, 3), 4
CASES: dict[str, Likelihood] = {
    "categorical": Categorical(CLASSES, positions=2),
    "bernoulli": Bernoulli(2, positions=2),
    "gaussian": Gaussian(2, positions=2),
    "a variance for each output": Gaussian(2, "output", positions=2),
    "a variance for each input": Gaussian(2, "input", positions=2),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def likelihood(request: pytest.FixtureRequest) -> Likelihood:
    return CASES[request.param]


@pytest.fixture
def f(likelihood: Likelihood) -> Tensor:
    return torch.randn(3, N, *POSITIONS, likelihood.features)


def test_a_row_is_the_sum_of_its_positions(likelihood: Likelihood, f: Tensor) -> None:
    """Law: log_prob is the sum over positions as rows; all else is there for each of them."""
    y = likelihood.targets(likelihood.sample(f)[0])
    assert likelihood.output_shape(y) == f.shape[1:]
    flat, alone = f.flatten(1, 3), deepcopy(likelihood)
    alone.positions = 0
    each = alone.log_prob(flat, alone.targets(y.flatten(0, 2))).unflatten(1, (N, -1))
    torch.testing.assert_close(likelihood.log_prob(f, y), each.sum(-1))
    for found, rows in (
        (likelihood.mean(f), alone.mean(flat)),
        (likelihood.variance(f), alone.variance(flat)),
        (likelihood.entropy(f), alone.entropy(flat)),
    ):
        torch.testing.assert_close(found.flatten(1, 3), rows)


def test_ignored_labels_say_nothing() -> None:
    """Law: their log-density and their gradient are zero, and the others are as without them."""
    f = torch.randn(N, 6, CLASSES, requires_grad=True)
    y = torch.randint(CLASSES, (N, 6))
    kept = torch.rand(N, 6) < 0.5
    likelihood = Categorical(CLASSES, positions=1, ignore_index=-100)
    found = likelihood.log_prob(f, likelihood.targets(y.masked_fill(~kept, -100)))
    each = Categorical(CLASSES).log_prob(f.flatten(0, 1), y.flatten()).unflatten(0, (N, 6))
    torch.testing.assert_close(found, (each * kept).sum(1))
    found.sum().backward()
    assert f.grad is not None
    assert not f.grad[~kept].any()
    assert torch.equal(f.grad[kept].any(-1), torch.ones(int(kept.sum()), dtype=torch.bool))
    expected = nn.functional.cross_entropy(f.mT, y.masked_fill(~kept, -100), reduction="sum")
    torch.testing.assert_close(-found.sum(), expected)


class Tagger(nn.Module):
    """A label for each token; the tokens of a row meet one draw."""

    def __init__(self, draws: str = "example") -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(7, 8), WHVILinear(8, CLASSES, draws=draws)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.layer(self.table(tokens))
        return found


def test_the_bound_counts_rows_and_not_positions() -> None:
    """Law: N / M times the sum over all positions of the rows, beside one KL."""
    model, likelihood = Tagger("batch"), Categorical(CLASSES, positions=1)
    x, y = torch.randint(7, (4, 6)), torch.randint(CLASSES, (4, 6))
    with sampling(model):
        bound = elbo(model, likelihood, x, y, n_data=40)
        each = Categorical(CLASSES).log_prob(model(x).flatten(0, 1), y.flatten())
    torch.testing.assert_close(bound.log_likelihood, 10 * each.sum())
    torch.testing.assert_close(bound.kl, model.layer.kl())


@pytest.mark.parametrize("samples", [1, 3])
def test_a_row_has_one_draw_at_all_of_its_positions(samples: int) -> None:
    model, likelihood, seen = Tagger(), Categorical(CLASSES, positions=1), []
    model.layer.register_forward_hook(lambda *found: seen.append(found[2]))
    elbo(model, likelihood, torch.ones(4, 6, dtype=torch.long), torch.zeros(4, 6).long(), n_data=4, samples=samples)
    (f,) = seen
    assert (f == f[:, :1]).all()
    assert len({tuple(row[0].tolist()) for row in f}) == 4 * samples


def test_tokens_are_learned_and_predicted() -> None:
    """The tag of a token is its number mod 4; padding has none."""
    x = torch.randint(7, (64, 5))
    y = (x % CLASSES).masked_fill(torch.rand(64, 5) < 0.2, -100)
    likelihood = Categorical(CLASSES, positions=1, ignore_index=-100)
    result = fit(Tagger(), likelihood, (x, y), steps=60, algorithm=SVI(0.1))
    prediction = result.predict(x, 16, seed=0)
    assert prediction.mean.shape == (64, 5, CLASSES)
    assert prediction.entropy.shape == prediction.mutual_information.shape == (64, 5)
    assert (prediction.mean.argmax(-1) == x % CLASSES).float().mean() > 0.9
    assert prediction.log_prob(y).shape == (64,)
    f = prediction.samples()
    joint = torch.stack([likelihood.log_prob(one, y) for one in f]).logsumexp(0) - torch.tensor(16.0).log()
    torch.testing.assert_close(prediction.log_prob(y), joint)


def test_series_and_images_of_numbers() -> None:
    x = torch.randn(12, 6, 3)
    likelihood = Gaussian(2, positions=1)
    result = fit(WHVILinear(3, 2), likelihood, (x, x[..., :2]), steps=5)
    prediction = result.predict(x, 8, seed=0)
    low, high = prediction.interval(0.9)
    assert prediction.mean.shape == low.shape == high.shape == (12, 6, 2)
    assert (low < high).all()
    assert prediction.log_prob(x[..., :2]).shape == (12,)
    assert prediction.sample_y(3).shape == (3, 12, 6, 2)
    single = predict(WHVILinear(3, 1), x, 8, likelihood=Gaussian(positions=1), draws="example")
    assert single.entropy.shape == (12, 6)


def test_members_of_an_ensemble_have_noise_of_their_own() -> None:
    x = torch.randn(12, 6, 3)
    likelihoods: list[Likelihood] = [Gaussian(2, variance=each, positions=1) for each in (0.1, 2.0)]
    prediction = predict(Ensemble([nn.Linear(3, 2) for _ in range(2)], likelihoods), x)
    variances = torch.stack([each.log_variance.exp().detach() for each in likelihoods])
    torch.testing.assert_close(prediction.aleatoric, variances.mean().expand(12, 6, 2))


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (lambda x: x.mT, torch.zeros(2, 5).long(), r"takes \(2, 5, 4\); its classes .* found.movedim"),
        (lambda x: x, torch.zeros(2, 4).long(), r"takes \(2, 4, 4\); .* for each position"),
        (lambda x: x[:, 0], torch.zeros(2, 4).long(), r"takes \(2, 4, 4\)"),
    ],
    ids=["channels first", "other positions", "one-hot labels"],
)
def test_outputs_that_do_not_fit_are_explained(model: Callable[[Tensor], Tensor], y: Tensor, message: str) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x)

    with pytest.raises(ShapeError, match=message):
        elbo(Model(), Categorical(CLASSES, positions=1), torch.randn(2, 5, CLASSES), y, n_data=2)


def test_rows_are_chosen_by_the_sum_over_their_positions() -> None:
    model, x, likelihood = Tagger(), torch.randint(7, (9, 6)), Categorical(CLASSES, positions=1)
    scores = predict(model, x, 8, likelihood=likelihood, seed=0).mutual_information.sum(1)
    chosen = choose(model, x, 3, likelihood=likelihood, samples=8, seed=0)
    assert torch.equal(chosen, scores.topk(3).indices)
    with pytest.raises(UnsupportedError, match="positions"):
        choose(model, x, 3, "variance", likelihood=Gaussian(CLASSES, positions=1))


def test_a_layer_that_sees_time_first_is_explained() -> None:
    class TimeFirst(Tagger):
        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens.T).transpose(0, 1)

    x = torch.zeros(4, 6).long()
    with pytest.raises(ShapeError, match=r'one draw of weights for all of its positions.*draws="batch"'):
        elbo(TimeFirst(), Categorical(CLASSES, positions=1), x, x, n_data=4)


def test_targets_at_other_positions_than_predicted_are_refused() -> None:
    prediction = predict(WHVILinear(3, 2), torch.randn(4, 6, 3), 2, likelihood=Gaussian(2, positions=1))
    with pytest.raises(ShapeError, match=r"y has positions \(5,\), but \(6,\) were predicted"):
        prediction.log_prob(torch.zeros(4, 5, 2))
