"""Models that write into what they are given, put positions before rows, or draw for themselves."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import whvi
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.predictive import Ensemble

COUNT = 33


class InPlace(nn.Module):
    """A model that changes its input, or a view of it."""

    def __init__(self, layer: nn.Module, view: bool = False) -> None:
        super().__init__()
        self.layer, self.view = layer, view

    def forward(self, x: Tensor) -> Tensor:
        (x[:] if self.view else x).sub_(0.5)
        return self.layer(x)


class Shifted(InPlace):
    """The same without the change."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x - 0.5)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("layer", [WHVILinear(4, 2), nn.Linear(4, 2)], ids=["Bayesian", "plain"])
@pytest.mark.parametrize("draws", ["batch", "example"])
def test_inputs_stay_as_they_are_and_pieces_are_fresh(layer: nn.Module, draws: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        x = torch.randn(5, 4)
        before, one = x.clone(), {"seed": 3, "draws": draws, "batch_rows": 2}
        found, expected = (whvi.predict(kind(layer, True), x, COUNT, **one) for kind in (InPlace, Shifted))
        assert torch.equal(x, before)
        assert torch.equal(found.samples(), expected.samples())
        assert torch.equal(found.epistemic, expected.epistemic)


def test_pieces_are_fresh_where_functions_are_evaluated_one_by_one_and_for_members() -> None:
    class Table(InPlace):
        """What the layer sees has no rows, so functions cannot share a pass."""

        def forward(self, x: Tensor) -> Tensor:
            return (x.sub_(0.5) if self.view else x - 0.5) @ self.layer(torch.eye(4, 3))

    x, layer = torch.randn(1, 4), MeanFieldLinear(3, 1)
    found, expected = (whvi.predict(Table(layer, view), x, COUNT, seed=0).samples() for view in (True, False))
    assert torch.equal(found, expected)
    ensemble = Ensemble([InPlace(nn.Linear(4, 2)) for _ in range(COUNT)])
    before = x.clone()
    f = whvi.predict(ensemble, x).samples()
    assert torch.equal(x, before)
    torch.testing.assert_close(f, torch.stack([ensemble.member(i)(x.clone()) for i in range(COUNT)]))


@pytest.mark.parametrize("kind", ["tensors", "loader", "replicas", "elbo"])
def test_a_fit_leaves_the_data_as_they_are(kind: str) -> None:
    x, y = torch.randn(6, 4), torch.randn(6, 1)
    before, likelihood = x.clone(), Gaussian()
    first, second = (InPlace(nn.Linear(4, 1)), Shifted(nn.Linear(4, 1)))
    second.load_state_dict(first.state_dict())
    for model in (first, second):
        if kind == "elbo":
            whvi.elbo(model, likelihood, x, y, n_data=6)
        elif kind == "replicas":
            whvi.inference.fit_replicas([model], [Gaussian()], [(x, y)], steps=3)
        else:
            rows = DataLoader(TensorDataset(x, y), batch_size=None, sampler=[slice(0, 6)])  # its batches are views
            data = (x, y) if kind == "tensors" else rows
            whvi.fit(model, Gaussian(), data, steps=3, **({} if kind == "tensors" else {"n_data": 6}))
        assert torch.equal(x, before)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one, other)


class PositionsFirst(nn.Module):
    """The mean over positions of a layer that sees positions before rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = WHVILinear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows, positions, features = x.shape
        f = self.layer(x.transpose(0, 1).reshape(-1, features))
        return f.reshape(positions, rows, 1).mean(0)


class RowsFirst(PositionsFirst):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2]).mean(1)


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_positions_before_rows_are_seen(rows: int) -> None:
    model, right, x = PositionsFirst(), RowsFirst(), torch.randn(1, 16, 4).expand(rows, 16, 4)
    right.load_state_dict(model.state_dict())
    found, expected = whvi.predict(model, x, 400, seed=0).std, whvi.predict(right, x, 400, seed=0).std
    torch.testing.assert_close(found, expected, rtol=0.2, atol=0.0)


class Noisy(nn.Module):
    """A model that draws for itself."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + torch.randn(len(x), 1)


@pytest.mark.parametrize("layer", [WHVILinear(4, 1), nn.Linear(4, 1)], ids=["Bayesian", "plain"])
def test_a_model_that_draws_for_itself_is_announced_and_is_no_certain_function(layer: nn.Module) -> None:
    model, x = Noisy(layer), torch.randn(5, 4)
    with pytest.warns(UserWarning, match="Noisy draws random numbers of its own"):
        found = whvi.predict(model, x, 200, seed=1, likelihood=Gaussian())
    assert found.functions == 200
    assert ((found.epistemic > 0.6) & (found.epistemic < 2.5)).all()
    with pytest.warns(UserWarning, match="Noisy"):
        again = whvi.predict(model, x, 200, seed=1, likelihood=Gaussian())
    assert torch.equal(found.epistemic, again.epistemic)
    torch.testing.assert_close(found.samples().mean(0), found.mean)


def test_what_others_draw_meanwhile_is_no_draw_of_the_model() -> None:
    class Caller(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            torch.randn(3)  # as another thread may
            return super().forward(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert whvi.predict(Caller(4, 1), torch.randn(5, 4), 20).functions == 1
