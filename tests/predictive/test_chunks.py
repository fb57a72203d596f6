"""How many rows are evaluated at a time: enough for speed, few enough for memory."""

import pytest
import torch
from torch import Tensor, nn

from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVIConv2d, WHVILinear
from whvi.predictive import Ensemble, predict
from whvi.predictive import prediction as module
from whvi.predictive.chunks import KEPT, PIECE, default_rows, kept_rows


def embedding() -> nn.Module:
    return nn.Sequential(nn.Embedding(50000, 16), nn.Flatten(), nn.Linear(80, 16), nn.Linear(16, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 10))


MODELS = {
    "linear": (nn.Linear(4, 64), torch.zeros(9, 4), 64),
    "wide input": (nn.Linear(4000, 2), torch.zeros(9, 4000), 4000),
    "at positions": (nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 1)), torch.zeros(9, 7, 4), 7 * 64),
    "flattened": (nn.Sequential(nn.Flatten(), nn.Linear(784, 512)), torch.zeros(9, 1, 28, 28), 784),
    "flattened in forward": (nn.Linear(784, 512), torch.zeros(9, 1, 28, 28), 784),
    "a table": (embedding(), torch.zeros(9, 5, dtype=torch.long), 80),
    "tokens": (
        nn.Sequential(nn.Embedding(900, 16), nn.Linear(16, 32)),
        torch.zeros(9, 5, dtype=torch.long),
        5 * 32,
    ),
    "convolutions": (convolutions(), torch.zeros(9, 1, 16, 16), 8 * 16 * 16),
    "Bayesian": (
        nn.Sequential(WHVIConv2d(1, 8, 3), nn.Flatten(), WHVILinear(1568, 2)),
        torch.zeros(9, 1, 16, 16),
        256 * 12,  # a filter is padded to blocks of side 12
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_widest_activation_is_a_piece(name: str) -> None:
    model, x, width = MODELS[name]
    for functions in (1, 16):
        assert default_rows(model, x, functions) == PIECE // (functions * width)


def test_members_count_as_one() -> None:
    ensemble = Ensemble([nn.Linear(4, 64) for _ in range(100)])
    assert predict(ensemble, torch.zeros(3, 4))._functions.batch_rows == PIECE // (16 * 64)


def test_there_is_always_a_row() -> None:
    assert default_rows(nn.Linear(1, 1), torch.zeros(1, 2 * PIECE), 16) == 1
    assert kept_rows(KEPT + 1, 3) == 1
    assert kept_rows(1, 0) == KEPT


@pytest.mark.parametrize("draws", ["batch", "example"])
def test_quantiles_hold_no_more_than_is_allowed(draws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def watch(f: Tensor, *others: object) -> Tensor:
        held.append(f.numel())
        return original(f, *others)

    original = module.mixture.quantile
    monkeypatch.setattr(module.mixture, "quantile", watch)
    model, x = MeanFieldLinear(4, 512).eval(), torch.randn(6, 4)
    prediction = predict(model, x, 700, draws=draws, seed=0)
    low, high = prediction.interval(0.9)
    assert len(held) == 2 * 3
    assert max(held) == 700 * 2 * 512 <= KEPT
    f = prediction.samples()  # the same functions, though in other chunks
    levels = torch.tensor([0.05, 0.95], dtype=torch.float64)
    expected = torch.stack([f[:, row].double().quantile(levels, dim=0) for row in range(6)], 1)
    torch.testing.assert_close(torch.stack([low, high]).double(), expected, rtol=1e-5, atol=1e-5)


def test_rows_that_were_asked_for_are_kept() -> None:
    prediction = predict(MeanFieldLinear(4, 1), torch.randn(6, 4), likelihood=Gaussian(), batch_rows=5)
    assert prediction._functions.batch_rows == prediction._functions.whole_rows(10**9) == 5
