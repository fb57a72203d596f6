"""``whvi.fit``: it learns, it repeats itself, and it says what is wrong."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fitted import Data, bits, network, rows, same
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recompute

from whvi.errors import DivergenceError, ShapeError, WhviError
from whvi.inference import MAP, SVI, EarlyStopping, LinearWarmup, Moment, elbo, fit
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, WHVILinear

pytestmark = pytest.mark.filterwarnings("ignore:.*= is deprecated. use:DeprecationWarning")


@pytest.fixture
def data() -> Data:
    return rows()


def test_it_learns(data: Data) -> None:
    model, likelihood = network(), Gaussian()
    result = fit(model, likelihood, data, steps=600, algorithm=SVI(1e-2))
    assert result.posterior is model
    assert result.history.elbo[-1] > result.history.elbo[0] + 100
    assert likelihood.noise < 0.8 * float(data[1].std())
    assert result.history.stopped == "steps"
    assert result.history.noise[-1] == pytest.approx(likelihood.noise, rel=1e-2)


def test_a_seed_repeats_a_run_bit_for_bit(data: Data) -> None:
    def run(seed: int, noise: float) -> list[Tensor]:
        model, likelihood = network(), Gaussian()
        torch.rand(int(noise))  # the state of torch's generator must not matter
        fit(model, likelihood, data, steps=30, seed=seed)
        return bits(model, likelihood)

    assert same(run(1, 3), run(1, 8))
    assert not same(run(1, 3), run(2, 3))


def test_the_callers_generator_is_left_alone(data: Data) -> None:
    model = network()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(model, Gaussian(), data, steps=3)
    assert torch.equal(torch.rand(3), expected)


def test_seeds_of_numpy_are_numbers(data: Data, tmp_path: Path) -> None:
    one, other = network(), network()
    fit(one, Gaussian(), data, steps=5, seed=np.int64(7), checkpoint=tmp_path)  # type: ignore[arg-type]
    fit(other, Gaussian(), data, steps=5, seed=7)
    assert same(bits(one), bits(other))
    with pytest.raises(WhviError, match="seed"):
        fit(one, Gaussian(), data, steps=5, seed=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("monitor", ["elbo", "mnll"])
def test_early_stopping_goes_back_to_the_best(data: Data, monitor: str) -> None:
    model, likelihood = network(), Gaussian()
    stopping = EarlyStopping(monitor, every=5, patience=2)
    seen = []

    def ruin(moment: Moment) -> None:
        seen.append((moment.step, bits(model, likelihood)))
        if moment.step >= 40:
            with torch.no_grad():
                model[0].g.mean.mul_(1.5)

    result = fit(
        model,
        likelihood,
        data,
        steps=10_000,
        algorithm=SVI(1e-2),
        early_stopping=stopping,
        validation=data,
        callback=ruin,
        callback_every=5,
    )
    assert result.history.stopped == "early"
    last = seen[-1][0]
    assert last < 200
    best = last - 5 * stopping.patience
    assert same(bits(model, likelihood), dict(seen)[best])
    looks = [step for step, _ in result.history.validation]
    assert looks == list(range(5, last + 1, 5))


def test_a_callback_can_end_a_run(data: Data) -> None:
    result = fit(network(), Gaussian(), data, steps=50, callback=lambda moment: moment.step >= 20, callback_every=10)
    assert result.history.stopped == "callback"
    assert result.history.steps[-1] == 20


def test_frozen_noise_waits(data: Data) -> None:
    likelihood = Gaussian(frozen_steps=10)
    start = likelihood.noise
    result = fit(network(), likelihood, data, steps=20, record_every=1)
    assert result.history.noise[:10] == [start] * 10
    assert result.history.noise[10] != start


def test_clipping_bounds_the_step(data: Data) -> None:
    model, likelihood = network(), Gaussian()
    before = torch.cat([b.flatten() for b in bits(model, likelihood)])
    sgd = partial(torch.optim.SGD, momentum=0.0)
    fit(model, likelihood, data, steps=1, algorithm=SVI(0.5, clip=0.01, optimizer=sgd))
    after = torch.cat([b.flatten() for b in bits(model, likelihood)])
    assert float((after - before).norm()) == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_the_rate_follows_its_schedule_and_beta_its_own(data: Data) -> None:
    model = network()
    algorithm = SVI(1e-2, schedule=lambda step: float(step < 3), kl_weight=LinearWarmup(5))
    seen = []
    fit(
        model,
        Gaussian(),
        data,
        steps=6,
        algorithm=algorithm,
        callback=lambda m: seen.append(bits(model)),
        callback_every=1,
    )
    assert not same(seen[1], seen[2])
    assert same(seen[2], seen[5])  # a rate of zero


def test_bf16_trains_parameters_of_full_precision(data: Data) -> None:
    model, likelihood = network(), Gaussian()
    dtypes = []
    model[0].register_forward_hook(lambda module, x, y: dtypes.append(y.dtype))
    result = fit(model, likelihood, data, steps=300, algorithm=SVI(1e-2, precision="bf16"))
    assert set(dtypes) == {torch.bfloat16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert result.history.elbo[-1] > result.history.elbo[0]


@pytest.mark.parametrize(
    ("likelihood", "outputs"),
    [(Categorical(3), 3), (Bernoulli(2), 2), (Gaussian(2, "input"), 4), (Gaussian(2, "output"), 2)],
)
def test_all_likelihoods(data: Data, likelihood: Likelihood, outputs: int) -> None:
    x, y = data
    targets = {
        Categorical: (y.squeeze(-1) > 0).long() + (y.squeeze(-1) > 0.5).long(),
        Bernoulli: torch.cat([(y > 0).float(), (y < 0.5).float()], 1),
        Gaussian: torch.cat([y, -y], 1),
    }[type(likelihood)]
    result = fit(network(outputs), likelihood, (x, targets), steps=300, algorithm=SVI(1e-2))
    assert result.history.elbo[-1] > result.history.elbo[0]


def test_map_finds_the_mode() -> None:
    """Ridge regression: the mode of a linear model is known."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 3, generator=generator).double()
    y = (x @ torch.tensor([[1.0], [-2.0], [0.5]]).double()) + 0.5 * torch.randn(50, 1, generator=generator).double()
    model, likelihood = nn.Linear(3, 1, bias=False).double(), Gaussian(variance=0.25, learned=False).double()
    algorithm = MAP(0.1, prior_variance=0.1, schedule=lambda step: 0.99**step)
    fit(model, likelihood, (x, y), batch_size=50, steps=1200, algorithm=algorithm)
    exact = torch.linalg.solve(x.mT @ x / 0.25 + torch.eye(3).double() / 0.1, x.mT @ y / 0.25)
    torch.testing.assert_close(model.weight.detach().mT, exact, rtol=1e-4, atol=1e-5)


def test_tensorboard_gets_the_scalars(data: Data, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = fit(network(), Gaussian(), data, steps=10, log_dir=tmp_path, record_every=5)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"elbo", "log-lik", "kl", "noise"}
    assert [(e.step, e.value) for e in events.Scalars("kl")] == [
        (5, pytest.approx(result.history.kl[0])),
        (10, pytest.approx(result.history.kl[1])),
    ]


def test_the_bar_tells_the_four_numbers(data: Data, capsys: pytest.CaptureFixture[str]) -> None:
    fit(network(), Gaussian(), data, steps=10, progress=True)
    shown = capsys.readouterr().err
    for word in ("10/10", "elbo", "log-lik", "kl", "noise", "rows/s"):
        assert word in shown
    fit(network(), Gaussian(), data, steps=10)
    assert capsys.readouterr().err == ""  # no terminal, no bar


def test_divergence_is_said(data: Data) -> None:
    sgd = torch.optim.SGD
    with pytest.raises(DivergenceError, match="lower the learning rate"):
        fit(network(), Gaussian(), data, steps=200, algorithm=SVI(1e6, optimizer=sgd), record_every=10)


def test_a_fit_has_gradients_wherever_it_is_called(data: Data) -> None:
    one, other = network(), network()
    fit(one, Gaussian(), data, steps=3)
    with torch.no_grad():
        fit(other, Gaussian(), data, steps=3)
        assert not torch.is_grad_enabled()
    assert same(bits(one), bits(other))


def test_modes_are_left_as_they_were(data: Data) -> None:
    model = network().eval()
    fit(model, Gaussian(), data, steps=2)
    assert not model.training


def test_mc_dropout_and_plain_networks(data: Data) -> None:
    dropout = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), MCDropout(nn.Linear(16, 1)))
    for model in (dropout, nn.Linear(3, 1)):
        history = fit(model, Gaussian(), data, steps=200, algorithm=SVI(1e-2)).history
        assert history.elbo[-1] > history.elbo[0]


def test_activation_checkpointing_repeats_its_noise(data: Data) -> None:
    class Recomputed(nn.Module):
        def __init__(self, inner: nn.Module, again: bool) -> None:
            super().__init__()
            self.inner, self.again = inner, again

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = recompute(self.inner, x, use_reentrant=False) if self.again else self.inner(x)
            return y

    results = []
    for again in (False, True):
        model = Recomputed(network(), again)
        fit(model, Gaussian(), data, steps=3)
        results.append(bits(model))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_repeats_of_one_draw_are_draws_of_their_own(data: Data) -> None:
    """Also where a layer draws once for a batch, more samples make the estimate better."""
    model = nn.Sequential(WHVILinear(3, 8, draws="batch"), nn.ReLU(), WHVILinear(8, 1, draws="batch"))
    with torch.no_grad():
        few, many = (
            torch.stack([elbo(model, Gaussian(), *data, n_data=120, samples=s).log_likelihood for _ in range(200)])
            for s in (1, 16)
        )
    assert many.std() < 0.5 * few.std()


@pytest.mark.parametrize("shape", ["an axis too many", "one row for all", "half the rows"])
def test_outputs_of_the_wrong_shape_are_not_broadcast(data: Data, shape: str) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x)
            return {"an axis too many": y.unsqueeze(1), "one row for all": y[:1], "half the rows": y[::2]}[shape]

    with pytest.raises(ShapeError, match="the model gives"):
        fit(Odd(), Gaussian(), data, steps=2)


def test_divergence_in_a_short_window_is_said(data: Data) -> None:
    with pytest.raises(DivergenceError):
        fit(network(), Gaussian(), data, steps=50, algorithm=SVI(1e6, optimizer=torch.optim.SGD), record_every=100)


def test_the_last_window_may_be_short(data: Data) -> None:
    history = fit(network(), Gaussian(), data, steps=10, record_every=4).history
    assert history.steps == [4, 8, 10]


def test_parts_in_eval_mode_stay_there(data: Data) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    model[1].eval()
    before = model[1].running_mean.clone()
    fit(model, Gaussian(), data, steps=3)
    assert [module.training for module in model] == [True, False, True]
    assert torch.equal(model[1].running_mean, before)


def test_groups_of_an_optimizer_keep_their_rates(data: Data) -> None:
    model = network()

    def optimizer(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        return torch.optim.Adam([{"params": parameters[:2], "lr": 0.0}, {"params": parameters[2:]}], lr=lr)

    before = bits(model)
    fit(model, Gaussian(), data, steps=3, algorithm=SVI(optimizer=optimizer))
    moved = [not torch.equal(a, b) for a, b in zip(before, bits(model), strict=True)]
    assert moved == [False, False, *[True] * (len(moved) - 2)]
    with pytest.raises(WhviError, match="LBFGS"):
        fit(network(), Gaussian(), data, steps=3, algorithm=SVI(optimizer=torch.optim.LBFGS))


def bad_data() -> dict[str, tuple[object, dict[str, object], str]]:
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    nan = torch.full_like(x, float("nan"))
    return {
        "nan in x": ((nan, y), {}, "x has NaN or inf in 10 of 10 rows"),
        "inf in y": ((x, y / 0), {}, "y has NaN or inf"),
        "lengths": ((x, y[:5]), {}, "one row for each example"),
        "outputs": ((x, torch.randn(10, 2)), {}, r"\(rows, 1\)"),
        "no rows": ((x[:0], y[:0]), {}, "no rows"),
        "no pair": (x, {}, "pair"),
        "arrays": ((x.numpy(), y.numpy()), {}, "torch.as_tensor"),
        "features": ((torch.randn(10, 4), y), {}, "in_features = 3"),
        "steps": ((x, y), {"steps": 0}, "steps must be at least 1"),
        "batch size": ((x, y), {"batch_size": 0}, "batch_size"),
        "checkpoint_every": ((x, y), {"checkpoint_every": 0}, "checkpoint_every"),
        "record_every": ((x, y), {"record_every": -1}, "record_every"),
        "n_data": ((x, y), {"n_data": 5}, "DataLoader"),
        "seed": ((x, y), {"seed": 0.5}, "seed must be an int"),
        "algorithm": ((x, y), {"algorithm": "adam"}, r"SVI\(\)"),
        "mnll without rows": ((x, y), {"early_stopping": EarlyStopping()}, "needs validation"),
        "validation of another length": (
            (x, y),
            {"early_stopping": EarlyStopping(), "validation": (x, y[:3])},
            "one row",
        ),
        "rows without stopping": ((x, y), {"validation": (x, y)}, "early_stopping"),
    }


@pytest.mark.parametrize("case", bad_data())
def test_bad_input_is_explained(case: str) -> None:
    data, options, message = bad_data()[case]
    with pytest.raises(WhviError, match=message):
        fit(network(), Gaussian(), data, **{"steps": 2, **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SVI(0.0), "learning_rate"),
        (lambda: SVI("fast"), "learning_rate must be a number"),
        (lambda: SVI(kl_weight=-1.0), "kl_weight"),
        (lambda: SVI(schedule="cosine"), "schedule"),
        (lambda: SVI(samples=0), "samples"),
        (lambda: SVI(clip=-1.0), "clip"),
        (lambda: SVI(precision="fp8"), "bf16"),
        (lambda: MAP(prior_variance=0.0), "prior_variance"),
        (lambda: EarlyStopping("loss"), "monitor"),
        (lambda: EarlyStopping(patience=0), "patience"),
        (lambda: fit(network(), nn.MSELoss(), (torch.zeros(1, 3), torch.zeros(1)), steps=1), "whvi.likelihoods"),
        (lambda: fit("model", Gaussian(), (torch.zeros(1, 3), torch.zeros(1)), steps=1), "nn.Module"),
        (
            lambda: fit(nn.ReLU(), Gaussian(learned=False), (torch.zeros(1, 1), torch.zeros(1)), steps=1),
            "nothing to fit",
        ),
        (lambda: fit(network(2), Gaussian(), (torch.zeros(1, 3), torch.zeros(1)), steps=1), "1 outputs"),
        (lambda: fit(network(), Gaussian(), (torch.zeros(1, 3), torch.zeros(1)), steps=1, algorithm=MAP()), "SVI"),
    ],
)
def test_bad_settings_are_explained(make: object, message: str) -> None:
    with pytest.raises(WhviError, match=message):
        make()  # type: ignore[operator]


def test_one_row_and_constant_features_are_fine() -> None:
    """Documented: constant features are features that say nothing; one row is a batch of one."""
    fit(network(), Gaussian(), (torch.ones(1, 3), torch.ones(1)), steps=3)
    x = torch.randn(20, 3)
    x[:, 1] = 7.0
    assert fit(network(), Gaussian(), (x, x[:, 0]), steps=300).history.elbo[-1] < 0.0
