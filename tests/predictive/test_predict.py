"""``whvi.predict``: which functions it evaluates, in what pieces, and what it leaves behind."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError, WhviError
from whvi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from whvi.nn import MCDropout, MeanFieldLinear, WHVIColumn, WHVIConv2d, WHVILinear
from whvi.predictive import Ensemble, Prediction, predict
from whvi_paper.baselines import TensorFactorisedLinear

FIELDS = ("mean", "epistemic", "aleatoric")


def structured(posterior: str) -> nn.Sequential:
    return nn.Sequential(WHVILinear(3, 8, posterior=posterior), nn.ReLU(), WHVILinear(8, 2, posterior=posterior))


MODELS: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(structured, name) for name in ("diagonal", "low_rank:2", "full", "planar:2", "point")},
    "mean field": lambda: nn.Sequential(MeanFieldLinear(3, 8), nn.Tanh(), MeanFieldLinear(8, 2)),
    "MC dropout": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), MCDropout(nn.Linear(8, 2), 0.3)),
    "factorised": lambda: nn.Sequential(TensorFactorisedLinear(3, 8), nn.ReLU(), WHVIColumn(8, 2)),
    "mixed": lambda: nn.Sequential(WHVILinear(3, 8, scales="diagonal"), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2)),
}


def draws_of(model: nn.Module, x: Tensor, count: int, seed: int) -> Tensor:
    """The functions that ``predict`` says it takes, by ``whvi.sampling``: (count, N, features)."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for start in range(0, count, 16):
        size = min(16, count - start)
        with whvi.sampling(model, size, generator), torch.no_grad():
            found.append(model(x.repeat(size, *[1] * (x.ndim - 1))).unflatten(0, (size, -1)))
    return torch.cat(found)


def same(one: Prediction, other: Prediction) -> bool:
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


@pytest.mark.parametrize("likelihood", [None, Gaussian(2), Categorical(2), Bernoulli(2), Gaussian(1, "input")], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_fields_are_the_moments_of_explicit_draws(name: str, likelihood: Likelihood | None) -> None:
    model, x = MODELS[name]().double().eval(), torch.randn(7, 3, dtype=torch.float64)
    prediction = predict(model, x, 37, likelihood=likelihood, seed=5, batch_rows=3)
    f = draws_of(model, x, 37, 5)
    mean = f if likelihood is None else likelihood.mean(f)
    close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(prediction.mean, mean.mean(0), **close)
    torch.testing.assert_close(prediction.epistemic, mean.var(0, correction=0), **close)
    noise = torch.zeros_like(mean[0]) if likelihood is None else likelihood.variance(f).mean(0).detach()
    torch.testing.assert_close(prediction.aleatoric, noise, **close)
    torch.testing.assert_close(prediction.variance, prediction.epistemic + prediction.aleatoric)
    torch.testing.assert_close(prediction.std.square(), prediction.variance)
    torch.testing.assert_close(prediction.samples(), f, **close)
    torch.testing.assert_close(prediction.samples(20), f[:20], **close)


def test_chunks_of_rows_change_nothing_bit_for_bit() -> None:
    model = nn.Sequential(WHVILinear(6, 32), nn.ReLU(), WHVILinear(32, 4)).eval()
    x, labels = torch.randn(50, 6), torch.randint(4, (50,))
    whole, *others = (predict(model, x, 20, likelihood=Categorical(4), seed=1, batch_rows=r) for r in (50, 1, 7, 16))
    for other in others:
        assert same(whole, other)
        assert torch.equal(whole.mutual_information, other.mutual_information)
        assert torch.equal(whole.log_prob(labels), other.log_prob(labels))
        assert torch.equal(whole.samples(), other.samples())
        assert torch.equal(whole.sample_y(), other.sample_y())


@pytest.mark.parametrize("name", MODELS)
def test_chunks_of_rows_change_other_layers_by_rounding_only(name: str) -> None:
    model, x = MODELS[name]().double().eval(), torch.randn(23, 3, dtype=torch.float64)
    one, other = (predict(model, x, 20, seed=1, batch_rows=rows) for rows in (23, 5))
    torch.testing.assert_close(one.samples(), other.samples(), rtol=1e-12, atol=1e-12)


def test_the_old_word_for_batch_warns() -> None:
    model, x = MODELS["diagonal"]().eval(), torch.randn(9, 3)
    with pytest.warns(DeprecationWarning, match="draws='function' is now called 'batch'") as caught:
        found = predict(model, x, 5, draws="function", seed=3)
    assert [warning.filename for warning in caught] == [__file__]
    assert same(found, predict(model, x, 5, draws="batch", seed=3))


@pytest.mark.parametrize("draws", ["batch", "example"])
def test_a_seed_fixes_the_result(draws: str) -> None:
    model, x = MODELS["diagonal"]().eval(), torch.randn(9, 3)
    first, again, other = (predict(model, x, 5, draws=draws, seed=seed) for seed in (3, 3, 4))
    assert same(first, again)
    assert torch.equal(first.samples(), again.samples())
    assert not torch.isclose(first.mean, other.mean, rtol=1e-3).any()
    torch.manual_seed(11)
    fresh = predict(model, x, 5, draws=draws)
    torch.manual_seed(11)
    assert same(fresh, predict(model, x, 5, draws=draws))
    assert same(fresh, predict(model, x, 5, draws=draws, seed=fresh.seed))
    assert not same(fresh, predict(model, x, 5, draws=draws))


def test_seeds_side_by_side_share_no_function() -> None:
    model, x = WHVILinear(4, 1).double().eval(), torch.randn(1, 4, dtype=torch.float64)
    f = torch.cat([predict(model, x, 100, seed=seed).samples().flatten() for seed in range(-5, 20)])
    assert f.unique().numel() == f.numel()


def test_more_samples_begin_with_the_same_functions() -> None:
    model, x = MODELS["planar:2"]().eval(), torch.randn(4, 3)
    torch.testing.assert_close(predict(model, x, 40, seed=2).samples(11), predict(model, x, 11, seed=2).samples())


def test_function_draws_are_functions_and_example_draws_are_not() -> None:
    model, x = MODELS["diagonal"]().eval(), torch.randn(1, 3).repeat(40, 1)
    function = predict(model, x, 20, seed=0, batch_rows=16).samples()
    assert torch.equal(function, function[:, :1].expand_as(function))
    example = predict(model, x, 20, seed=0, draws="example", batch_rows=16).samples()
    assert example[..., 0].unique().numel() == 20 * 40


def test_both_kinds_of_draws_have_one_law() -> None:
    model, x = MODELS["diagonal"]().eval(), torch.randn(1, 3).repeat(200, 1)
    each = predict(model, x, 100, seed=0, draws="example").samples()[..., 0].flatten()
    function = predict(model, x[:1], 20000, seed=0).samples()[..., 0].flatten()
    error = (each.var() / each.numel() + function.var() / function.numel()).sqrt()
    assert (each.mean() - function.mean()).abs() < 4 * error
    assert abs(each.std() / function.std() - 1) < 0.05


def test_a_model_without_draws_is_evaluated_once() -> None:
    calls = []

    class Counting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            calls.append(x.shape[0])
            return super().forward(x)

    model, x = Counting(3, 2), torch.randn(5, 3)
    prediction = predict(model, x, 64, likelihood=Gaussian(2, variance=0.25))
    assert calls == [5]
    assert prediction.functions == 1
    torch.testing.assert_close(prediction.mean, model(x).detach())
    assert (prediction.epistemic == 0).all()
    torch.testing.assert_close(prediction.aleatoric, torch.full((5, 2), 0.25))


def test_one_sample_has_no_spread() -> None:
    prediction = predict(MODELS["diagonal"](), torch.randn(5, 3), 1, likelihood=Gaussian(2))
    assert (prediction.epistemic == 0).all()
    assert prediction.samples().shape == (1, 5, 2)


def test_a_small_spread_about_a_large_mean_is_right() -> None:
    layer = MeanFieldLinear(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weights.mean.fill_(1e8)
        layer.weights.log_std.fill_(0.0)
    prediction = predict(layer, torch.ones(1, 1, dtype=torch.float64), 1000, seed=0)
    f = prediction.samples()
    torch.testing.assert_close(prediction.epistemic, (f - f[0]).var(0, correction=0), rtol=1e-7, atol=0)


def test_images_and_outputs_of_any_shape() -> None:
    model = nn.Sequential(WHVIConv2d(2, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)).eval()
    x = torch.randn(5, 2, 6, 6)
    prediction = predict(model, x, 18, seed=3, batch_rows=2)
    assert prediction.mean.shape == (5, 4, 3, 3)
    torch.testing.assert_close(prediction.mean, draws_of(model, x, 18, 3).mean(0), atol=1e-5, rtol=1e-4)
    assert prediction.quantile([0.1, 0.9]).shape == (2, 5, 4, 3, 3)


def test_half_and_double_precision() -> None:
    model, x = MODELS["diagonal"]().eval(), torch.randn(6, 3)
    exact = predict(model.double(), x.double(), 20, likelihood=Gaussian(2), seed=0)
    assert exact.mean.dtype == exact.quantile(0.5).dtype == torch.float64
    half = predict(model.bfloat16(), x.bfloat16(), 20, likelihood=Gaussian(2).bfloat16(), seed=0)
    assert half.mean.dtype == torch.float32
    torch.testing.assert_close(half.mean.double(), exact.mean, rtol=0.1, atol=0.1)


def test_eval_mode_for_the_prediction_and_the_old_mode_after_it() -> None:
    model = nn.Sequential(WHVILinear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.9), nn.Linear(8, 1))
    model[1].running_mean.fill_(0.7)
    x = torch.randn(12, 3)
    model[4].eval()
    before, flags = model[1].running_mean.clone(), [module.training for module in model.modules()]
    trained = predict(model, x, 20, seed=0)
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(model[1].running_mean, before)
    assert same(trained, predict(model.eval(), x, 20, seed=0))
    assert not trained.mean.requires_grad


def test_the_mode_is_restored_after_an_error() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert not self.training
            raise OSError("broken")

    model = nn.Sequential(WHVILinear(3, 8), Failing(), nn.BatchNorm1d(8).eval())
    with pytest.raises(OSError, match="broken"):
        predict(model, torch.randn(2, 3))
    assert [module.training for module in model.modules()] == [True] * (len(list(model.modules())) - 1) + [False]
    assert torch.is_grad_enabled()


@pytest.fixture
def one_thread_each() -> Iterator[None]:
    """Each thread of Python with one of torch: more would wait for each other, for minutes on two cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread_each")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("draws", ["batch", "example"])
def test_eight_threads_equal_one_bit_for_bit(draws: str, training: bool) -> None:
    model = nn.Sequential(WHVILinear(3, 32), nn.BatchNorm1d(32), nn.ReLU(), MeanFieldLinear(32, 2))
    model[1].running_mean.normal_()
    model.train(training)
    x, y, likelihood = torch.randn(300, 3), torch.randn(300, 2), Gaussian(2)

    def run(seed: int) -> list[Tensor]:
        prediction = predict(model, x, 40, likelihood=likelihood, seed=seed, draws=draws, batch_rows=50)
        return [*(getattr(prediction, name) for name in FIELDS), prediction.log_prob(y), prediction.samples()]

    serial = [run(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for one, other in zip(serial, pool.map(run, range(16)), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert model[1].training is training


class Pause(nn.Module):
    """Lets other threads run in the middle of a pass."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(1e-3)
        return x


@pytest.mark.usefixtures("one_thread_each")
def test_eight_threads_predict_with_an_ensemble() -> None:
    ensemble = Ensemble([nn.Sequential(WHVILinear(3, 8), Pause(), nn.Linear(8, 2)) for _ in range(20)], Gaussian(2))
    x = torch.randn(10, 3)
    serial = [predict(ensemble, x, 40, seed=seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        threads = pool.map(lambda seed: predict(ensemble, x, 40, seed=seed), range(16))
        assert all(same(one, other) for one, other in zip(serial, threads, strict=True))


def test_the_likelihood_is_that_of_the_model_unless_another_is_given() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.likelihood = MODELS["diagonal"](), Gaussian(2, variance=0.3)

        def forward(self, x: Tensor) -> Tensor:
            return self.body(x)

    model, x = Plain(), torch.randn(3, 3)
    torch.testing.assert_close(predict(model, x).aleatoric, torch.full((3, 2), 0.3))
    other = predict(model, x, likelihood=Gaussian(2, variance=0.5))
    torch.testing.assert_close(other.aleatoric, torch.full((3, 2), 0.5))


def test_another_thing_of_that_name_is_no_likelihood() -> None:
    class Named(nn.Linear):
        def likelihood(self, y: Tensor) -> Tensor:
            return y

    assert (predict(Named(3, 2), torch.randn(4, 3)).aleatoric == 0).all()
    with pytest.raises(InputTypeError, match=r"likelihood must be one of whvi\.likelihoods"):
        predict(Named(3, 2), torch.randn(4, 3), likelihood=Named(3, 2).likelihood)


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = MeanFieldLinear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).squeeze(-1)


@pytest.mark.parametrize(
    ("likelihood", "rows", "how"),
    [
        (Gaussian(), 1, r"unsqueeze\(-1\)"),
        (Gaussian(), 10, r"unsqueeze\(-1\)"),
        (Categorical(10), 10, "that many outputs"),
    ],
)
def test_outputs_without_an_axis_of_features(likelihood: Likelihood, rows: int, how: str) -> None:
    model, x = Squeezed(), torch.randn(rows, 3)
    for one in (model, Ensemble([model, Squeezed()])):
        with pytest.raises(ShapeError, match=rf"the model gives \({rows},\), .*; .*{how}"):
            predict(one, x, likelihood=likelihood)
        assert predict(one, x).mean.shape == (rows,)


@pytest.mark.parametrize("likelihood", [None, Gaussian(2), Categorical(2)], ids=str)
def test_no_rows_give_empty_fields(likelihood: Likelihood | None) -> None:
    prediction = predict(MODELS["diagonal"](), torch.zeros(0, 3), likelihood=likelihood)
    assert len(prediction) == 0
    assert prediction.mean.shape == prediction.variance.shape == (0, 2)
    assert prediction.samples(3).shape == (3, 0, 2)
    if isinstance(likelihood, Gaussian):
        assert prediction.log_prob(torch.zeros(0, 2)).shape == (0,)
        assert prediction.interval()[0].shape == (0, 2)
        with pytest.raises(ShapeError, match="at least one row"):
            prediction.mnll(torch.zeros(0, 2))


def holes(value: float) -> Tensor:
    x = torch.randn(9, 3)
    x[2, 1] = x[5, 0] = x[5, 2] = value
    return x


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x": holes(float("nan"))}, ArgumentError, "in 2 of 9 rows"),
        ({"x": holes(float("inf"))}, ArgumentError, "in 2 of 9 rows"),
        ({"x": [[1.0, 2.0, 3.0]]}, InputTypeError, "torch.as_tensor"),
        ({"x": torch.tensor(1.0)}, ShapeError, "first axis must be rows"),
        ({"x": torch.ones(2, 3) * 1j}, DtypeError, "real"),
        ({"x": torch.ones(2, 4)}, ShapeError, "in_features = 3"),
        ({"samples": 0}, ArgumentError, "samples must be at least 1"),
        ({"samples": 2.5}, InputTypeError, "samples must be an int"),
        ({"samples": True}, InputTypeError, "samples must be an int"),
        ({"batch_rows": 0}, ArgumentError, "batch_rows must be at least 1"),
        ({"draws": "row"}, ArgumentError, "'batch' or 'example'"),
        ({"seed": 1.0}, InputTypeError, "seed must be an int"),
        ({"seed": 2**63}, ArgumentError, "64 bits"),
        ({"model": lambda x: x}, InputTypeError, "torch.nn.Module"),
        ({"likelihood": "gaussian"}, InputTypeError, "one of whvi.likelihoods"),
        ({"likelihood": Gaussian(3)}, ShapeError, "give the model 3 outputs"),
        ({"model": nn.Flatten(0)}, ShapeError, "one row for each input"),
        ({"output": "logits"}, InputTypeError, "output must be a function"),
        ({"output": lambda f: [f]}, InputTypeError, "output must give a torch.Tensor, got list"),
    ],
)
def test_errors_say_what_is_wrong(arguments: dict[str, Any], error: type[WhviError], message: str) -> None:
    arguments = {"model": MODELS["diagonal"](), "x": torch.randn(9, 3)} | arguments
    with pytest.raises(error, match=message):
        predict(**arguments)


MEMORY = """
import resource, torch
from torch import nn
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.predictive import predict
torch.set_num_threads(1)
model = nn.Sequential(WHVILinear(4, 16), nn.ReLU(), WHVILinear(16, 1)).eval()
for rows, samples in ((10_000, 10), (250_000, 100)):
    prediction = predict(model, torch.randn(rows, 4), samples, likelihood=Gaussian())
    assert prediction.mean.isfinite().all() and (prediction.epistemic > 0).all()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_samples_and_hardly_with_rows() -> None:
    command = [sys.executable, "-c", MEMORY]
    small, large = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert (large - small) / 1024 < 64
