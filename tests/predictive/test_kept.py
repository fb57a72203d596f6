"""Models that are known to keep rows are not tried first, and all others are."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import UnsupportedError
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVIConv2d, WHVILinear
from whvi.predictive.kept import keeps_rows

COUNT = 33


class Counted(WHVILinear):
    """A layer that keeps the shapes of what it was given."""

    def forward(self, x: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return super().forward(x)


seen: list[tuple[int, ...]] = []


def test_known_models_take_one_pass_for_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.Sequential(WHVILinear(4, 8), nn.ReLU(inplace=True), Counted(8, 1)), torch.randn(8, 4)
    seen.clear()
    tried = whvi.predict(model, x, COUNT, seed=1)
    assert [shape[0] for shape in seen] == [9 * 16, 3, 8 * 16, 8]
    monkeypatch.setattr("whvi.predictive.kept._KEEPING", frozenset((WHVILinear, nn.ReLU, Counted)))
    seen.clear()
    known = whvi.predict(model, x, COUNT, seed=1)
    assert [shape[0] for shape in seen] == [8 * 16, 8 * 16, 8]
    torch.testing.assert_close(known.samples(), tried.samples())


def test_known_models_give_what_others_of_the_same_layers_give() -> None:
    known = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), WHVILinear(8, 8), nn.Tanh(), MeanFieldLinear(8, 1))
    other, x = nn.Sequential(*known, type("Same", (nn.Identity,), {})()), torch.randn(2, 3, 4)
    assert keeps_rows(known)
    assert not keeps_rows(other)
    before = x.clone()
    found, expected = (whvi.predict(model, x, COUNT, seed=2).samples() for model in (known, other))
    torch.testing.assert_close(found, expected)
    assert torch.equal(x, before)


def _transposed(_: nn.Module, given: tuple[Any, ...]) -> Tensor:
    x: Tensor = given[0]
    return x.transpose(0, 1)


def test_what_is_not_known_is_tried() -> None:
    hooked, bound = nn.Sequential(WHVILinear(4, 1)), nn.Sequential(nn.Sequential(WHVILinear(4, 1)))
    hooked[0].register_forward_pre_hook(_transposed)
    bound[0].forward = lambda x: x  # type: ignore[method-assign]
    flat = nn.Sequential(nn.Flatten(0, 1), WHVILinear(4, 1))
    image = nn.Sequential(WHVIConv2d(1, 1, 3))
    for model in (hooked, bound, flat, image, Counted(4, 1), nn.Sequential(nn.BatchNorm1d(4), WHVILinear(4, 1))):
        assert not keeps_rows(model)


def test_moments_compute_all_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    own = WHVILinear.moments

    def counted(self: WHVILinear, mean: Tensor, variance: Tensor | None) -> Any:
        calls.append(len(mean))
        return own(self, mean, variance)

    monkeypatch.setattr(WHVILinear, "moments", counted)
    model = nn.Sequential(WHVILinear(4, 512), nn.ReLU(), WHVILinear(512, 1))
    whvi.predict(model, torch.randn(300, 4), likelihood=Gaussian(), method="moments")
    assert calls == [300, 300]


@pytest.mark.parametrize("asked", [False, True])
def test_intervals_by_moments_see_a_change_since_the_prediction(asked: bool) -> None:
    layer = WHVILinear(4, 1)
    found = whvi.predict(layer, torch.randn(3, 4), likelihood=Gaussian(), method="moments")
    if asked:
        assert (found.interval(0.5)[0] < found.mean).all()
    with torch.no_grad():
        layer.g.mean.add_(1.0)
    with pytest.raises(UnsupportedError, match="has changed"):
        found.interval(0.5)
