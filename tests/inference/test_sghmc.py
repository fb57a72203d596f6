"""SGHMC: exact posteriors, the law of its bias, resuming, bad input."""

from dataclasses import replace
from math import log
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError, UnsupportedError
from whvi.inference.callbacks import Checkpoint, EarlyStopping
from whvi.inference.diagnostics import effective_sample_size, split_rhat
from whvi.inference.fit import fit
from whvi.inference.seeds import start_generators
from whvi.inference.sghmc import SGHMC, Chains
from whvi.likelihoods import Categorical, Gaussian
from whvi.nn import MeanFieldLinear
from whvi.testing import LinearGaussian

INPUTS = 5


def regression(rows: int, noise: float, variances: dict[str, float]) -> tuple[Tensor, Tensor, LinearGaussian]:
    """Inputs and targets of a linear regression with a bias, and the problem with its exact posterior."""
    x = torch.randn(rows, INPUTS, dtype=torch.float64)
    design = torch.cat([x, torch.ones(rows, 1, dtype=torch.float64)], 1)
    prior = torch.tensor([variances["weight"]] * INPUTS + [variances["bias"]], dtype=torch.float64)
    coefficients = prior.sqrt() * torch.randn(INPUTS + 1, dtype=torch.float64)
    y = design @ coefficients + noise**0.5 * torch.randn(rows, dtype=torch.float64)
    return x, y.unsqueeze(-1), LinearGaussian(design, y, noise, prior.diag())


def known_noise(variance: float) -> Gaussian:
    return Gaussian(variance=variance, learned=False).double()


def walk(run: Chains, x: Tensor, y: Tensor, steps: range, batch: int | None = None) -> None:
    """Steps whose batch and noise are functions of their number, as those of ``whvi.fit``."""
    for step in steps:
        start_generators(step)
        rows = slice(None) if batch is None else torch.randperm(len(x))[:batch]
        run.update(x[rows], y[rows], step)


def joined(run: Chains) -> Tensor:
    """Samples of weight and bias of a linear layer: (chains, n, parameters)."""
    return torch.cat([run.samples["weight"].flatten(2), run.samples["bias"].flatten(2)], -1)


def errors(samples: Tensor, problem: LinearGaussian) -> tuple[float, float]:
    """Largest error of a mean, in standard deviations of the posterior, and of a standard deviation, relative."""
    exact = problem.posterior()
    std = exact.covariance.diagonal().sqrt()
    draws = samples.flatten(0, 1)
    mean_error = (draws.mean(0) - exact.mean).abs() / std
    return float(mean_error.max()), float((draws.std(0) / std - 1.0).abs().max())


@pytest.mark.slow
def test_full_batch_moments_are_those_of_the_exact_posterior() -> None:
    variances = {"weight": 1.0, "bias": 0.1}
    x, y, problem = regression(40, 0.5, variances)
    settings = SGHMC(0.08, friction=0.1, burn_in=500, thin=5, keep=1000, chains=64, prior_variance=variances)
    run = settings.init(nn.Linear(INPUTS, 1).double(), known_noise(0.5), len(x))
    walk(run, x, y, range(2000))
    samples = joined(run)
    assert samples.shape == (64, 300, INPUTS + 1)
    mean_error, std_error = errors(samples, problem)
    assert mean_error < 0.05
    assert std_error < 0.05
    assert float(split_rhat(samples).max()) < 1.01
    assert float(effective_sample_size(samples).min()) > 4000  # so the errors above are no luck
    correlation = torch.corrcoef(samples.flatten(0, 1).T)
    exact = problem.posterior().covariance
    expected = exact / exact.diagonal().sqrt().outer(exact.diagonal().sqrt())
    torch.testing.assert_close(correlation, expected, rtol=0.0, atol=0.06)


@pytest.mark.slow
def test_minibatch_moments() -> None:
    """Looser: all chains see one batch, whose noise does not average out over them."""
    x, y, problem = regression(200, 2.5, {"weight": 1.0, "bias": 1.0})
    run = SGHMC(0.03, burn_in=1000, thin=5, keep=1000, chains=64).init(
        nn.Linear(INPUTS, 1).double(), known_noise(2.5), len(x)
    )
    walk(run, x, y, range(3000), batch=50)
    mean_error, std_error = errors(joined(run), problem)
    assert mean_error < 0.2
    assert std_error < 0.1
    assert float(split_rhat(joined(run)).max()) < 1.05


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("size", [0.1, 1.0])
def test_bias_of_the_step_size(size: float, temperature: float) -> None:
    """Without burn-in the mass is one: var = temperature / precision / (1 - k / (4 - 2 friction)), at any k."""
    x, y = torch.tensor([[1.0], [2.0]]).double(), torch.tensor([[1.0], [-1.0]]).double()
    precision = 1.0 + 5.0 / 0.5
    settings = SGHMC((size / precision) ** 0.5, 0.3, 0, 4, 1000, chains=1024, temperature=temperature)
    run = settings.init(nn.Linear(1, 1, bias=False).double(), known_noise(0.5), 2)
    walk(run, x, y, range(300))
    draws = run.samples["weight"][:, 25:].flatten()
    expected = temperature / precision / (1.0 - size / (4.0 - 2.0 * 0.3))
    assert float(draws.var()) == pytest.approx(expected, rel=0.03)
    assert float(draws.mean()) == pytest.approx(-1.0 / 0.5 / precision, abs=0.02 * expected**0.5)


def test_gradient_noise_makes_room_for_that_of_minibatches() -> None:
    """The noise that is added is smaller by step_size^4, and only for a batch of less than all rows."""
    x, y = torch.ones(2, 1).double(), torch.zeros(2, 1).double()
    spreads = {}
    for share, rows in ((0.0, 1), (1.0, 1), (1.0, 2)):
        torch.manual_seed(0)
        settings = SGHMC(0.1, 0.05, 0, 1, chains=500, gradient_noise=share)
        run = settings.init(nn.Linear(1, 1, bias=False).double(), known_noise(1.0), 2)
        before = run.tensors()["position"]
        run.update(x[:rows], y[:rows], 0)
        pull = -(0.1**2) * 3.0 * before  # the gradient is 3 theta in all cases, the mass is 1
        spreads[share, rows] = float((run.tensors()["velocity"] - pull).var())
    assert spreads[0.0, 1] == pytest.approx(2 * 0.05 * 0.1**2, rel=0.2)
    assert spreads[0.0, 1] - spreads[1.0, 1] == pytest.approx(0.1**4, rel=0.2)
    assert spreads[1.0, 2] == pytest.approx(spreads[0.0, 1], rel=1e-9)


def test_learned_noise_is_sampled() -> None:
    """The posterior of log_variance, with f = 0 and the prior N(start, 1), by quadrature."""
    y = 2.0 * torch.randn(12, 1, dtype=torch.float64)
    likelihood = Gaussian(variance=0.5).double()
    grid = torch.linspace(-4.0, 6.0, 4001, dtype=torch.float64)
    log_density = -0.5 * (grid - log(0.5)) ** 2 - 6.0 * grid - 0.5 * float(y.square().sum()) * (-grid).exp()
    density = log_density.softmax(0)
    mean = float((density * grid).sum())
    std = float((density * (grid - mean) ** 2).sum()) ** 0.5
    run = SGHMC(0.2, friction=0.2, burn_in=300, thin=5, keep=1000, chains=128).init(
        nn.Linear(1, 1, bias=False).double(), likelihood, len(y)
    )
    walk(run, torch.zeros(12, 1).double(), y, range(1000))
    draws = run.likelihood_samples["log_variance"]
    assert draws.shape == (128, 140)
    assert float(draws.mean()) == pytest.approx(mean, abs=0.05 * std)
    assert float(draws.std()) == pytest.approx(std, rel=0.05)
    weight = run.samples["weight"]  # there is no data about it: its prior
    assert float(weight.std()) == pytest.approx(1.0, rel=0.05)
    assert float(split_rhat(draws)) < 1.01


def test_frozen_likelihood_waits() -> None:
    likelihood = Gaussian(frozen_steps=3)
    run = SGHMC(chains=3, burn_in=2).init(nn.Linear(2, 1), likelihood, 4)
    start = run.tensors()
    x, y = torch.randn(4, 2), torch.randn(4, 1)
    walk(run, x, y, range(3))
    frozen = run.tensors()
    for name in ("position", "velocity", "square", "window"):
        assert torch.equal(frozen[name][:, -1], start[name][:, -1])
        assert not torch.equal(frozen[name][:, :-1], start[name][:, :-1])
    walk(run, x, y, range(3, 4))
    assert (run.tensors()["position"][:, -1] != start["position"][:, -1]).all()


def test_scales_adapt_in_burn_in_only() -> None:
    """At rest E[gradient^2] is the precision of the posterior; short windows make V somewhat larger on average."""
    x, y, problem = regression(40, 0.5, {"weight": 1.0, "bias": 1.0})
    x[:, 0] *= 10.0
    problem.design[:, 0] *= 10.0  # a precision 100 times that of the others
    run = SGHMC(0.08, friction=0.1, burn_in=400, chains=64).init(
        nn.Linear(INPUTS, 1).double(), known_noise(0.5), len(x)
    )
    walk(run, x, y, range(400))
    square = run.tensors()["square"]
    ratio = square.mean(0) / problem.precision().diagonal()
    assert 0.7 < float(ratio.min()) < float(ratio.max()) < 3.0
    walk(run, x, y, range(400, 410))
    assert torch.equal(run.tensors()["square"], square)


def test_averages_and_window_are_those_of_the_paper() -> None:
    """window <- 1 + window (1 - mean^2 / square), mean and square updated at rate 1 / (window + 1), by hand."""
    x, y = torch.randn(6, 1).double(), torch.randn(6, 1).double()
    model = nn.Linear(1, 1, bias=False).double()
    run = SGHMC(burn_in=10, chains=1).init(model, known_noise(1.0), 6)
    mean, square, window = 0.0, 1.0, 1.0
    for step in range(10):
        w = float(model.weight.detach())
        gradient = w + float((x * (w * x - y)).sum())
        mean += (gradient - mean) / (window + 1.0)
        square += (gradient**2 - square) / (window + 1.0)
        window += 1.0 - window * mean**2 / square
        run.update(x, y, step)
        found = [float(run.tensors()[name]) for name in ("gradient", "square", "window")]
        assert found == pytest.approx([mean, square, window], rel=1e-9)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize("pause", [5, 17])
def test_a_resumed_run_ends_in_the_same_bits(pause: int) -> None:
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    settings = SGHMC(burn_in=10, thin=3, keep=4, chains=3)

    def start(seed: int) -> tuple[Chains, nn.Module, Gaussian]:
        torch.manual_seed(seed)
        model, likelihood = network(), Gaussian(variance=0.1 + seed, frozen_steps=7)
        return settings.init(model, likelihood, 20), model, likelihood

    whole, model, likelihood = start(1)
    walk(whole, x, y, range(30), batch=5)
    first, *_ = start(1)
    walk(first, x, y, range(pause), batch=5)
    tensors, numbers = first.tensors(), first.numbers()
    walk(first, x, y, range(pause, pause + 1), batch=5)  # what was taken out must not follow
    second, again, noise = start(2)  # other parameters, other start of the noise
    second.restore(tensors, numbers)
    walk(second, x, y, range(pause, 30), batch=5)
    expected = whole.tensors()
    assert expected["kept"].shape[0] == 4
    for name, value in second.tensors().items():
        assert torch.equal(value, expected[name]), name
    for one, other in zip(
        [*model.parameters(), *likelihood.parameters()], [*again.parameters(), *noise.parameters()], strict=True
    ):
        assert torch.equal(one, other)


def test_the_latest_samples_are_kept_and_the_model_stands_at_the_first_chain() -> None:
    model, x, y = network(), torch.randn(6, 3), torch.randn(6, 1)
    run = SGHMC(burn_in=4, thin=3, keep=2, chains=3).init(model, Gaussian(learned=False), 6)
    places = []
    for step in range(15):
        run.update(x, y, step)
        places.append(run.tensors()["position"])
        weight = places[-1][0, : 8 * 3].reshape(8, 3)
        assert torch.equal(model[0].weight, weight)  # type: ignore[index]
    expected = torch.stack([places[9], places[12]], 1)  # steps 6, 9, 12 were due; the first is gone
    assert torch.equal(run.samples["0.weight"], expected[..., : 8 * 3].unflatten(-1, (8, 3)))
    assert list(run.samples) == [name for name, _ in model.named_parameters()]
    assert run.likelihood_samples == {}


def test_terms_are_means_over_chains() -> None:
    model, likelihood = network().double(), Gaussian().double()
    run = SGHMC(chains=3, prior_variance={"0.bias": 4.0}).init(model, likelihood, 30)
    place = run.tensors()["position"]
    x, y = torch.randn(5, 3).double(), torch.randn(5, 1).double()
    terms = run.update(x, y, 0)
    log_likelihood, energy = [], []
    start = float(place[0, -1])
    for row in place:
        nn.utils.vector_to_parameters(row, [*model.parameters(), *likelihood.parameters()])
        log_likelihood.append(30 / 5 * likelihood.log_prob(model(x), y).sum())
        prior = [torch.distributions.Normal(0.0, 2.0 if n == "0.bias" else 1.0) for n, _ in model.named_parameters()]
        energy.append(-sum(law.log_prob(p).sum() for law, p in zip(prior, model.parameters(), strict=True)))
        energy[-1] -= torch.distributions.Normal(start, 1.0).log_prob(likelihood.log_variance)
    torch.testing.assert_close(terms.log_likelihood, torch.stack(log_likelihood).mean().detach())
    torch.testing.assert_close(terms.kl, torch.stack(energy).mean().detach())


def test_classes_are_learned() -> None:
    x = torch.randn(60, 3)
    labels = (x[:, 0] > 0.0).long() + (x[:, 1] > 0.0).long()
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
    run = SGHMC(0.05, burn_in=300, thin=10, chains=2).init(model, Categorical(3), 60)
    walk(run, x, labels, range(500), batch=20)
    hits = []
    for chain in range(2):
        for i in range(20):
            state = {name: value[chain, i] for name, value in run.samples.items()}
            hits.append(torch.func.functional_call(model, state, (x,)).softmax(-1))
    assert float((torch.stack(hits).mean(0).argmax(-1) == labels).float().mean()) > 0.85


def test_fit_runs_it_and_resumes_it(tmp_path: Path) -> None:
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    settings = SGHMC(burn_in=10, thin=5, chains=2, prior_variance={"0.weight": 0.5})

    def fitted(folder: str, *lengths: int) -> tuple[Ensemble, nn.Module]:
        torch.manual_seed(0)
        model, likelihood = network(), Gaussian()
        for steps in lengths:
            saving = [Checkpoint(tmp_path / folder)]
            result = fit(model, likelihood, (x, y), algorithm=settings, steps=steps, batch_size=5, callbacks=saving)
        assert isinstance(result.posterior, Ensemble)
        return result.posterior, model

    (whole, model), (parts, again) = fitted("whole", 40), fitted("parts", 17, 40)
    assert len(whole) == 2 * 6
    assert torch.equal(whole.functions(x), parts.functions(x))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(ArgumentError, match="leave no sample"):
        fit(network(), Gaussian(), (x, y), algorithm=settings, steps=10)


def test_ensemble_predicts_the_mean_over_samples() -> None:
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    model, likelihood = network(), Gaussian()
    model[2].bias.requires_grad_(False)  # type: ignore[index]  # the same in all members
    run = SGHMC(burn_in=5, thin=5, chains=3).init(model, likelihood, 10)
    with pytest.raises(ArgumentError, match="10 steps"):
        run.ensemble()
    walk(run, x, y, range(25))
    ensemble = run.ensemble()
    assert len(ensemble) == 3 * 4
    outputs = torch.stack(
        [
            torch.func.functional_call(model, {name: value[chain, i] for name, value in run.samples.items()}, (x,))
            for chain in range(3)
            for i in range(4)
        ]
    )
    torch.testing.assert_close(ensemble.functions(x).detach(), outputs.detach())
    noise = ensemble.likelihood().variance(outputs)
    expected = run.likelihood_samples["log_variance"].exp().flatten()
    torch.testing.assert_close(noise[:, 0, 0].detach(), expected)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"step_size": 0.0}, ArgumentError, "step_size must be positive, got 0.0"),
        ({"step_size": float("inf")}, ArgumentError, "step_size"),
        ({"step_size": float("nan")}, ArgumentError, "step_size"),
        ({"step_size": "small"}, InputTypeError, "step_size must be a number, got str"),
        ({"friction": 0.0}, ArgumentError, "friction must be between 0 and 1"),
        ({"friction": 1.0}, ArgumentError, "friction"),
        ({"burn_in": -1}, ArgumentError, "burn_in"),
        ({"thin": 0}, ArgumentError, "thin must be 1 or more"),
        ({"keep": 0}, ArgumentError, "keep"),
        ({"chains": 0}, ArgumentError, "chains must be 1 or more"),
        ({"chains": 2.0}, InputTypeError, "chains must be an int, got 2.0"),
        ({"chains": True}, InputTypeError, "chains"),
        ({"temperature": 0.0}, ArgumentError, "temperature"),
        ({"gradient_noise": 1.5}, ArgumentError, "gradient_noise must be from 0 to 1"),
        ({"prior_variance": 0.0}, ArgumentError, "prior_variance of the weights must be positive"),
        ({"prior_variance": {"weight": -1.0}}, ArgumentError, "prior_variance of weight"),
        ({"prior_variance": {"weight": None}}, InputTypeError, "prior_variance of weight"),
    ],
)
def test_bad_settings(settings: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replace(SGHMC(), **settings)


@pytest.mark.parametrize(
    ("model", "likelihood", "settings", "error", "message"),
    [
        (MeanFieldLinear(3, 1), Gaussian(), SGHMC(), UnsupportedError, "weights of a plain network"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), Gaussian(2), SGHMC(), UnsupportedError, "BatchNorm"),
        (nn.Linear(3, 1).requires_grad_(False), Gaussian(), SGHMC(), ArgumentError, "no parameters to sample"),
        (nn.Linear(3, 1).double(), Gaussian(), SGHMC(), DtypeError, "one dtype and device"),
        (nn.Linear(3, 1), Gaussian(), SGHMC(prior_variance={"wieght": 1.0}), ArgumentError, "wieght.*weight, bias"),
        (lambda x: x, Gaussian(), SGHMC(), InputTypeError, "torch.nn.Module"),
    ],
)
def test_models_that_do_not_fit(
    model: nn.Module, likelihood: Gaussian, settings: SGHMC, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        settings.init(model, likelihood, 10)


def test_bad_batches_and_numbers_of_rows() -> None:
    with pytest.raises(ArgumentError, match="n_data must be 1 or more"):
        SGHMC().init(nn.Linear(3, 1), Gaussian(), 0)
    run = SGHMC(chains=2).init(nn.Linear(3, 1), Gaussian(), 4)
    for rows in (0, 5):
        with pytest.raises(ArgumentError, match=f"{rows} rows, but must have from 1 to n_data = 4"):
            run.update(torch.zeros(rows, 3), torch.zeros(rows, 1), 0)
    with pytest.raises(ShapeError, match="give the model 2 outputs"):
        SGHMC().init(nn.Linear(3, 1), Gaussian(2), 4).update(torch.zeros(4, 3), torch.zeros(4, 2), 0)


def test_a_run_that_diverges_says_so() -> None:
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    run = SGHMC(step_size=50.0, burn_in=0, chains=2).init(nn.Linear(3, 1), Gaussian(learned=False), 8)
    with pytest.raises(ArgumentError, match="make step_size"):
        walk(run, x, y, range(200))


def test_restore_refuses_another_run() -> None:
    tensors = SGHMC(chains=2).init(nn.Linear(3, 1), Gaussian(), 8).tensors()
    other = SGHMC(chains=3).init(nn.Linear(3, 1), Gaussian(), 8)
    with pytest.raises(ShapeError, match=r"position has shape \(2, 5\).*need \(3, 5\)"):
        other.restore(tensors, {})
    with pytest.raises(ArgumentError, match="lack kept, velocity"):
        other.restore({name: value for name, value in tensors.items() if name not in ("kept", "velocity")}, {})


def test_minibatches_of_fit_leave_the_spread_right() -> None:
    """The correction for the noise of a batch holds for rows that are drawn independently, as ``fit`` does here."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, 3, generator=generator)
    y = x @ torch.tensor([[1.0], [-1.0], [0.5]]) + torch.randn(1000, 1, generator=generator)
    model, likelihood = nn.Linear(3, 1, bias=False), Gaussian(variance=1.0, learned=False)
    settings = SGHMC(burn_in=1000, thin=10, keep=400, chains=16)
    result = fit(model, likelihood, (x, y), steps=4000, algorithm=settings, batch_size=64)
    exact = torch.linalg.inv(x.mT @ x + torch.eye(3)).diagonal().sqrt()
    ratio = result.run.samples["weight"].flatten(0, 2).std(0) / exact
    assert (ratio - 1.0).abs().max() < 0.12, ratio


def test_bad_calls_of_fit_are_explained() -> None:
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    stopping = EarlyStopping("elbo")
    with pytest.raises(UnsupportedError, match="no best step"):
        fit(nn.Linear(3, 1), Gaussian(), (x, y), steps=9, algorithm=SGHMC(burn_in=1, thin=1), callbacks=[stopping])
    with pytest.raises(DtypeError, match="float32 or float64"):
        SGHMC().init(nn.Linear(3, 1).bfloat16(), Gaussian(), 20)


def test_a_layer_with_two_names_is_sampled_once() -> None:
    inner = nn.Linear(4, 4)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), inner, nn.Tanh(), inner, nn.Linear(4, 1))
    result = fit(
        model, Gaussian(), (torch.randn(20, 3), torch.randn(20, 1)), steps=30, algorithm=SGHMC(burn_in=10, thin=5)
    )
    assert all(type(parameter) is nn.Parameter for parameter in model.parameters())
    assert "4.weight" not in result.run.samples
    assert result.posterior(torch.randn(7, 3)).shape == (16, 7, 1)
