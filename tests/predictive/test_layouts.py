"""``whvi.predict`` of models whose layers see something else than rows: a function is one draw all the same."""

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.likelihoods import Gaussian
from whvi.nn import Draw, MeanFieldLinear, WHVILinear
from whvi.nn.model import bayesian_layers
from whvi.ops import seeds_from
from whvi.predictive import Ensemble, predict
from whvi.predictive.functions import GROUP
from whvi.testing import cover_pairs

MAKERS = {"WHVI": WHVILinear, "mean field": MeanFieldLinear}


class Transposed(nn.Module):
    """(N, T, 3) -> (N, T), by layers on (T, N, 3)."""

    def __init__(self, maker: type[nn.Module] = MeanFieldLinear) -> None:
        super().__init__()
        self.body = nn.Sequential(maker(3, 4), nn.Tanh(), maker(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.transpose(0, 1)).transpose(0, 1).squeeze(-1)


class Table(nn.Module):
    """(N, length) -> (N, 1): the layer is applied to a table of the model's own."""

    def __init__(self, length: int, maker: type[nn.Module] = MeanFieldLinear) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(length, 3))
        self.layer = maker(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.layer(self.table)


def model_and_inputs(kind: str, rows: int, length: int, maker: type[nn.Module]) -> tuple[nn.Module, Tensor]:
    if kind == "transposed":
        return Transposed(maker).double().eval(), torch.randn(rows, length, 3, dtype=torch.float64)
    return Table(length, maker).double().eval(), torch.randn(rows, length, dtype=torch.float64)


def one_by_one(model: nn.Module, x: Tensor, count: int, seed: int) -> Tensor:
    """The functions that ``predict`` says it takes, each by its own pass: (count, N, features)."""
    layers = bayesian_layers(model)
    seeds = seeds_from(seed, (-(-count // GROUP), len(layers)))
    found = []
    for i in range(count):
        own = seeds[i // GROUP] + i % GROUP
        with whvi.sampling(model, {layer: Draw(s) for layer, s in zip(layers, own, strict=True)}), torch.no_grad():
            found.append(model(x))
    return torch.stack(found)


# Powers of two are where a first axis happens to divide among 16 functions, with any number of rows.
SIZES = [(1, 10), (1, 16), (2, 64), (4, 16), (4, 64), (8, 128), (16, 512), (5, 32)]


@pytest.mark.parametrize(("kind", "size", "maker"), cover_pairs(["transposed", "table"], SIZES, list(MAKERS)), ids=str)
def test_functions_are_explicit_draws(kind: str, size: tuple[int, int], maker: str) -> None:
    model, x = model_and_inputs(kind, *size, MAKERS[maker])
    prediction = predict(model, x, 20, seed=3)
    f = one_by_one(model, x, 20, 3)
    close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(prediction.mean, f.mean(0), **close)
    torch.testing.assert_close(prediction.epistemic, f.var(0, correction=0), **close)
    torch.testing.assert_close(prediction.samples(), f, **close)
    torch.testing.assert_close(prediction.samples(7), f[:7], **close)
    torch.testing.assert_close(predict(model, x, 20, seed=3, batch_rows=3).mean, prediction.mean, **close)


@pytest.mark.parametrize("length", [10, 16])
@pytest.mark.parametrize("kind", ["transposed", "table"])
def test_moments_are_those_of_sampling(kind: str, length: int) -> None:
    model, x = model_and_inputs(kind, 4, length, MeanFieldLinear)
    count = 2000
    prediction = predict(model, x, count, seed=0)
    drawn = []
    for _ in range(count):
        with whvi.sampling(model, 1), torch.no_grad():
            drawn.append(model(x))
    f = torch.stack(drawn)
    error = ((prediction.epistemic + f.var(0)) / count).sqrt()
    assert ((prediction.mean - f.mean(0)).abs() < 4.5 * error).all()  # of up to 64 numbers
    square = (f - f.mean(0)).square()
    error = square.std(0) * sqrt(2 / count)
    assert ((prediction.epistemic - square.mean(0)).abs() < 4.5 * error).all()


@pytest.mark.parametrize("rows", [1, 4, 12])
def test_a_function_is_one_draw_for_all_rows_and_positions(rows: int) -> None:
    f = predict(Transposed(), torch.ones(rows, 16, 3), 16, seed=0).samples().flatten(1)
    torch.testing.assert_close(f, f[:, :1].expand_as(f))
    assert f[:, 0].unique().numel() == 16


@pytest.mark.parametrize("rows", [3, 12])
def test_example_draws_of_a_table_differ_between_functions(rows: int) -> None:
    f = predict(Table(10), torch.randn(rows, 10), 20, draws="example", seed=0).samples()
    assert f[:, 0, 0].unique().numel() == 20


@pytest.mark.parametrize("rows", [1, 6, 7, 40])
def test_rows_and_positions_as_one_axis_stay_together(rows: int) -> None:
    calls = []

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = MeanFieldLinear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            calls.append(x.shape[0])
            return self.layer(x.flatten(0, 1)).reshape(x.shape[:2])

    model, x = Flat().double().eval(), torch.randn(rows, 5, 3, dtype=torch.float64)
    prediction = predict(model, x, 48, seed=2)
    assert calls[-2:] == [16 * rows] * 2
    # One small pass tells few rows from something else, and another compares one function with the group.
    assert len(calls) == (5 if rows < 7 else 4)
    generator = torch.Generator().manual_seed(2)
    with whvi.sampling(model, 16, generator), torch.no_grad():
        expected = model(x.repeat(16, 1, 1)).unflatten(0, (16, -1))
    torch.testing.assert_close(prediction.samples(16), expected, rtol=1e-9, atol=1e-12)


def test_the_law_of_a_target_too() -> None:
    model, x = model_and_inputs("table", 5, 16, MeanFieldLinear)
    prediction = predict(model, x, 20, likelihood=Gaussian(), seed=1)
    f, y = one_by_one(model, x, 20, 1), torch.randn(5, 1)
    expected = Gaussian().log_prob(f, y).logsumexp(0) - torch.tensor(20.0).log()
    torch.testing.assert_close(prediction.log_prob(y), expected.detach())
    torch.testing.assert_close(
        predict(model, x, 20, likelihood=Gaussian(), seed=1).mean, prediction.mean, rtol=0, atol=0
    )


def test_an_ensemble_of_them() -> None:
    models = [Transposed().eval() for _ in range(3)]
    f = predict(Ensemble(models), torch.ones(4, 16, 3), 16, seed=0).samples().flatten(1)
    torch.testing.assert_close(f, f[:, :1].expand_as(f))
    assert f[:, 0].unique().numel() == 16
