"""Several inputs, as tuples and dicts, in memory and from a DataLoader: the same bits as one tensor of all columns."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import whvi
from whvi.errors import ArgumentError, InputTypeError, ShapeError, WhviError
from whvi.inference import MAP, SGHMC, SVI, EarlyStopping, elbo, fit, fit_replicas
from whvi.inference.algorithm import Algorithm
from whvi.inference.batches import split
from whvi.inference.compiled import can_compile
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.predictive import Ensemble, predict

N = 20
A, B = (torch.randn(N, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (0, 1))
Y = A[:, :1] * B[:, :1]


class Body(nn.Sequential):
    """Of one input."""

    def __init__(self, bayesian: bool = True) -> None:
        layer: Any = WHVILinear if bayesian else nn.Linear
        super().__init__(layer(6, 8, dtype=torch.float64), nn.Tanh(), layer(8, 1, dtype=torch.float64))


class Several(Body):
    """Of two inputs and a flag."""

    def forward(self, a: Tensor, b: Tensor, minus: bool = False) -> Tensor:  # type: ignore[override]
        found: Tensor = super().forward(torch.cat([a, -b if minus else b], -1))
        return found


class Named(Dataset[dict[str, Tensor]]):
    """Rows as dicts."""

    def __init__(self, target: str = "labels") -> None:
        self.target = target

    def __len__(self) -> int:
        return N

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"b": B[row], self.target: Y[row], "a": A[row]}


ONE: Any = (torch.cat([A, B], -1), Y)
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tuple": (((A, B), Y), {}),
    "dict": (({"b": B, "a": A}, Y), {}),
    "dict with a flag": (({"b": -B, "a": A, "minus": True}, Y), {}),
    "three": ((A, B, Y), {}),
    "three, the target first": ((Y, A, B), {"target": 0}),
    "dict with labels": ({"a": A, "labels": Y, "b": B}, {}),
    "dict with a target": ({"a": A, "rating": Y, "b": B}, {"target": "rating"}),
}
LOADERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "three": (TensorDataset(A, B, Y), {}),
    "dicts": (Named(), {}),
    "dicts with a target": (Named("rating"), {"target": "rating"}),
}
ALGORITHMS: dict[str, Algorithm] = {
    "svi": SVI(0.01, samples=2),
    "map": MAP(0.01),
    "sghmc": SGHMC(burn_in=3, thin=1, chains=2),
}


def models(bayesian: bool) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    one, other = Body(bayesian), Several(bayesian)
    other.load_state_dict(one.state_dict())
    return one, other


def assert_same(one: nn.Module, other: nn.Module) -> None:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", FORMS)
def test_a_fit_to_several_inputs_is_that_to_one(form: str, algorithm: str) -> None:
    data, options = FORMS[form]
    one, other = models(algorithm == "svi")
    settings: dict[str, Any] = {"steps": 6, "algorithm": ALGORITHMS[algorithm], "batch_size": 7}
    fit(one, Gaussian().double(), ONE, **settings)
    fit(other, Gaussian().double(), data, **settings, **options)
    assert_same(one, other)


@pytest.mark.parametrize("form", LOADERS)
def test_a_fit_to_a_loader_of_several_inputs_is_that_to_one(form: str) -> None:
    data, options = LOADERS[form]
    one, other = models(True)
    fit(one, Gaussian().double(), DataLoader(TensorDataset(*ONE), batch_size=7, shuffle=True), steps=6)
    fit(other, Gaussian().double(), DataLoader(data, batch_size=7, shuffle=True), steps=6, **options)
    assert_same(one, other)


def test_replicas_take_several_inputs() -> None:
    ones, others = zip(*(models(True) for _ in range(2)), strict=True)
    parts = [slice(0, 15), slice(3, 20)]
    likelihoods = [Gaussian().double() for _ in range(4)]
    fit_replicas(ones, likelihoods[:2], [(ONE[0][part], Y[part]) for part in parts], steps=5, batch_size=6)
    data = [({"b": -B[part], "a": A[part], "minus": True}, Y[part]) for part in parts]
    fit_replicas(others, likelihoods[2:], data, steps=5, batch_size=6)
    for one, other in zip(ones, others, strict=True):
        assert_same(one, other)


@pytest.mark.skipif(not can_compile(), reason="no C++ compiler")
def test_a_compiled_fit_takes_several_inputs() -> None:
    plain, compiled = models(True)[1], models(True)[1]
    for model, compile in ((plain, False), (compiled, True)):
        fit(model, Gaussian().double(), FORMS["dict with a flag"][0], steps=4, compile=compile)
    for a, b in zip(plain.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["tuple", "dict", "dict with a flag"])
@pytest.mark.parametrize("draws", ["batch", "example"])
@pytest.mark.parametrize("rows", [2, 20])
def test_a_prediction_of_several_inputs_is_that_of_one(form: str, draws: str, rows: int) -> None:
    one, other = models(True)
    x = whvi.rows.take(FORMS[form][0][0], slice(rows))
    options: dict[str, Any] = {"samples": 20, "likelihood": Gaussian().double(), "seed": 3, "draws": draws}
    first = predict(one, ONE[0][:rows], batch_rows=9, **options)
    again = predict(other, x, batch_rows=9, **options)
    assert torch.equal(first.mean, again.mean)
    assert torch.equal(first.samples(), again.samples())
    assert torch.equal(first.log_prob(Y[:rows]), again.log_prob(Y[:rows]))
    assert len(predict(other, whvi.rows.take(x, slice(0)), **options)) == 0


def test_a_prediction_sees_that_one_of_its_inputs_has_changed() -> None:
    x = {"a": A.clone(), "b": B.clone()}
    prediction = predict(models(True)[1], x, 4)
    x["b"][3, 0] += 1.0
    with pytest.raises(WhviError, match="x has changed"):
        prediction.samples()


def test_ensembles_take_several_inputs() -> None:
    one, other = models(True)
    first = predict(Ensemble([one, deepcopy(one)]), ONE[0], 6, seed=0)
    again = predict(Ensemble([other, deepcopy(other)]), {"a": A, "b": B}, 6, seed=0)
    assert torch.equal(first.samples(), again.samples())


def test_the_bound_of_several_inputs_is_that_of_one() -> None:
    found = []
    for model, x in zip(models(True), (ONE[0], {"b": B, "a": A}), strict=True):
        torch.manual_seed(1)
        found.append(elbo(model, Gaussian().double(), x, Y, n_data=50, samples=3).log_likelihood)
    assert torch.equal(*found)


def test_rows_are_held_out_and_augmented_in_several_inputs() -> None:
    def shifted(x: dict[str, Tensor]) -> dict[str, Tensor]:
        x["a"] += 1.0
        return x

    before = A.clone()
    stopping = EarlyStopping(every=2, validation=({"a": A[15:], "b": B[15:]}, Y[15:]))
    result = fit(
        models(True)[1], Gaussian().double(), ({"a": A, "b": B}, Y), steps=4, transform=shifted, callbacks=[stopping]
    )
    assert len(result.history.validation) == 2
    assert torch.equal(A, before)
    assert result.predict({"a": A, "b": B}, 3).mean.shape == (N, 1)


@pytest.mark.parametrize(
    ("data", "target", "error", "message"),
    [
        (
            {"a": A, "b": B},
            None,
            ArgumentError,
            "has 'a', 'b', but must have inputs and a target 'labels'; name the key",
        ),
        ({"labels": Y}, None, ArgumentError, "must have inputs and a target"),
        ({"a": A, "labels": Y}, "rating", ArgumentError, "target 'rating'"),
        ((A, B, Y), "labels", ArgumentError, "data is a tuple of 3; give the place"),
        ((A, B, Y), 3, ArgumentError, "give the place of the target"),
        ((Y,), None, InputTypeError, r"must be a pair \(x, y\)"),
        (Y, None, InputTypeError, r"must be a pair \(x, y\).*got Tensor"),
        (({"a": A, "b": B[:3]}, Y), None, ShapeError, r"x\['a'\] has 20 rows, but x\['b'\] has 3"),
        (({"a": A, "b": B}, Y[:3]), None, ShapeError, "x has 20 rows and y"),
        (({"a": A, "b": B}, [1.0]), None, InputTypeError, "y must be a torch.Tensor"),
    ],
)
def test_bad_data_are_named(data: Any, target: Any, error: type[WhviError], message: str) -> None:
    with pytest.raises(error, match=message):
        fit(models(True)[1], Gaussian().double(), data, steps=1, target=target)


def test_a_pair_is_as_it_was() -> None:
    x, y = split("data", [A, Y])
    assert x is A
    assert y is Y
