"""``Ensemble``: stacked members are the members."""

import copy
import pickle
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import ArgumentError, InputTypeError, ShapeError, WhviError
from whvi.likelihoods import Categorical, Gaussian
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi.predictive import Ensemble, predict

KINDS = {
    "plain": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)),
    "normalised": lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)),
    "WHVI": lambda: nn.Sequential(WHVILinear(3, 8), nn.ReLU(), WHVILinear(8, 2)),
    "full": lambda: nn.Sequential(WHVILinear(3, 8, posterior="full"), nn.ReLU(), WHVILinear(8, 2, posterior="planar")),
    "mean field": lambda: nn.Sequential(MeanFieldLinear(3, 8), nn.ReLU(), MeanFieldLinear(8, 2)),
    "MC dropout": lambda: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), MCDropout(nn.Linear(8, 2), 0.3)),
}


def members(kind: str, count: int = 5) -> list[nn.Module]:
    models: list[nn.Module] = [KINDS[kind]() for _ in range(count)]
    for model in models:
        model(torch.randn(9, 3))  # moves the statistics of normalisation
    return models


@pytest.mark.parametrize("kind", ["plain", "normalised"])
def test_functions_are_those_of_the_members(kind: str) -> None:
    models, x = members(kind), torch.randn(7, 3)
    ensemble = Ensemble(models)
    expected = torch.stack([model.eval()(x) for model in models])
    torch.testing.assert_close(ensemble.functions(x), expected)
    torch.testing.assert_close(ensemble(x), expected)
    torch.testing.assert_close(ensemble.functions(x, slice(1, 3)), expected[1:3])
    for i, model in enumerate(models):
        member = ensemble.member(i)
        assert torch.equal(member(x), model(x))
        assert type(member) is type(model)
        assert not member.training


@pytest.mark.parametrize("kind", ["WHVI", "full", "mean field", "MC dropout"])
def test_members_that_draw_are_themselves_under_a_fixed_draw(kind: str) -> None:
    models, x = members(kind), torch.randn(7, 3)
    ensemble = Ensemble(models)
    seeds = torch.randint(2**60, (5, len(ensemble.layers)))
    for draws, shape in (("batch", ()), ("example", None)):
        f = ensemble.functions(x, seeds=seeds, draws=draws)
        for model, own, value in zip(models, seeds, f, strict=True):
            layers = [module for module in model.modules() if isinstance(module, whvi.nn.BayesianLayer)]
            with whvi.sampling(model, {layer: whvi.nn.Draw(s, shape) for layer, s in zip(layers, own, strict=True)}):
                torch.testing.assert_close(value, model.eval()(x))
    assert not torch.isclose(ensemble.functions(x), ensemble.functions(x)).all()  # fresh draws


def test_members_are_copies() -> None:
    models = members("plain")
    x, ensemble = torch.randn(2, 3), Ensemble(models)
    before = ensemble.functions(x)
    nn.init.zeros_(models[0][0].weight)
    nn.init.zeros_(ensemble.member(1)[0].weight)
    assert torch.equal(ensemble.functions(x), before)


def test_the_prediction_is_the_mean_of_the_members() -> None:
    models, x = members("normalised"), torch.randn(11, 3)
    prediction = predict(Ensemble(models), x, batch_rows=4)
    each = torch.stack([model.eval()(x).detach() for model in models])
    assert prediction.functions == 5
    torch.testing.assert_close(prediction.mean, each.mean(0))
    torch.testing.assert_close(prediction.epistemic, each.var(0, correction=0))
    torch.testing.assert_close(predict(Ensemble(models), x, None).mean, each.mean(0))
    torch.testing.assert_close(predict(Ensemble(models), x, 3).mean, each[[0, 1, 3]].mean(0))  # spread over all


@pytest.mark.parametrize("count", [5, 12, 40])
def test_members_that_draw_take_turns(count: int) -> None:
    models, x = members("WHVI", 5), torch.randn(4, 3)
    for model in models:
        for layer in (model[0], model[2]):
            nn.init.constant_(layer.g.log_std, -30.0)
            nn.init.constant_(layer.bias.log_std, -30.0)
    f = predict(Ensemble(models), x, count, seed=0).samples()
    assert f.shape[0] == count
    for i, value in enumerate(f):
        with whvi.mean_mode(models[i % 5]):
            torch.testing.assert_close(value, models[i % 5](x).detach(), rtol=1e-4, atol=1e-5)


def test_turns_of_a_member_are_different_functions() -> None:
    f = predict(Ensemble(members("WHVI", 2)), torch.randn(1, 3), 40, seed=0).samples()
    assert f[:, 0, 0].unique().numel() == 40


def test_more_members_than_a_group() -> None:
    models, x = members("plain", 35), torch.randn(3, 3)
    f = predict(Ensemble(models), x, None).samples()
    torch.testing.assert_close(f, torch.stack([model(x).detach() for model in models]))


def test_states_make_an_ensemble() -> None:
    model, x = KINDS["normalised"](), torch.randn(4, 3)
    states = {name: torch.randn(6, *value.shape) for name, value in model.named_parameters()}
    ensemble = Ensemble.from_states(model, states)
    assert len(ensemble) == 6
    for i in range(6):
        own = {name: value[i] for name, value in states.items()}
        expected = torch.func.functional_call(model.eval(), own, (x,))
        torch.testing.assert_close(ensemble.functions(x)[i], expected)
    assert all(value.data_ptr() in {p.data_ptr() for p in ensemble.parameters()} for value in states.values())


def test_states_of_a_likelihood() -> None:
    model = KINDS["plain"]()
    states = {name: torch.randn(3, *value.shape) for name, value in model.named_parameters()}
    shared = Ensemble.from_states(model, states, Gaussian(2, variance=0.5))
    torch.testing.assert_close(predict(shared, torch.randn(2, 3)).aleatoric, torch.full((2, 2), 0.5))
    logs = {"log_variance": torch.tensor([1.0, 2.0, 6.0]).log()}
    own = Ensemble.from_states(model, states, Gaussian(2), logs)
    torch.testing.assert_close(predict(own, torch.randn(2, 3)).aleatoric, torch.full((2, 2), 3.0))


@pytest.mark.parametrize("noise", ["scalar", "output", "input"])
def test_likelihoods_broadcast_against_their_members(noise: str) -> None:
    own = [Gaussian(2, noise, variance=v) for v in (0.1, 1.0, 7.0)]
    ensemble = Ensemble(members("plain", 3), own)
    features = own[0].features
    f, y = torch.randn(2, 6, features), torch.randn(6, 2)
    joint = ensemble.likelihood([2, 0])
    assert joint is not None
    assert {tuple(p.shape) for p in joint.parameters()} == {(2, 1, 2) if noise == "output" else (2, 1, 1)}
    expected = torch.stack([own[2].log_prob(f[0], y), own[0].log_prob(f[1], y)])
    torch.testing.assert_close(joint.log_prob(f, y), expected)
    torch.testing.assert_close(joint.variance(f), torch.stack([own[2].variance(f[0]), own[0].variance(f[1])]))


def test_likelihoods_without_parameters() -> None:
    prediction = predict(Ensemble(members("plain"), Categorical(2)), torch.randn(3, 3))
    torch.testing.assert_close(prediction.mean.sum(-1), torch.ones(3))
    assert (prediction.mutual_information > 0).all()
    assert Ensemble(members("plain")).likelihood() is None


def test_shared_tensors_stay_shared() -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    models, x = [tied() for _ in range(3)], torch.randn(4, 3)
    ensemble = Ensemble(models)
    torch.testing.assert_close(ensemble.functions(x), torch.stack([model(x) for model in models]))
    member = ensemble.member(0)
    assert member[0].weight is member[1].weight


def test_names_that_look_alike_are_told_apart() -> None:
    """Of modules ``a.b`` and ``a-b``, and of others that any plain replacement of letters would mix up."""

    def model() -> nn.Module:
        outer = nn.Sequential(
            OrderedDict({name: nn.Sequential(OrderedDict(b=nn.Linear(1, 1))) for name in ("a", "a-")})
        )
        for name in ("a-b", "a%2Db", "a--b", "-"):
            outer.add_module(name, nn.Linear(1, 1))
        return outer

    models, x = [model() for _ in range(2)], torch.randn(4, 1)
    ensemble = Ensemble(models)
    torch.testing.assert_close(ensemble(x), torch.stack([model(x) for model in models]))
    for name, tensor in models[1].state_dict().items():
        assert torch.equal(ensemble.member(1).state_dict()[name], tensor)


def used_twice(maker: type[nn.Module]) -> nn.Module:
    """A layer in two places, and a parameter of it in a third."""
    layer, last = maker(4, 4), nn.Linear(4, 4)
    model = nn.Sequential(maker(3, 4), nn.Tanh(), layer, nn.Tanh(), layer, nn.Tanh(), last, nn.Linear(4, 2))
    if isinstance(layer, nn.Linear):
        last.weight = layer.weight
    return model.eval()


@pytest.mark.parametrize("maker", [nn.Linear, MeanFieldLinear, WHVILinear])
def test_modules_that_are_used_twice(maker: type[nn.Module]) -> None:
    models, x = [used_twice(maker) for _ in range(3)], torch.randn(5, 3)
    ensemble = Ensemble(models)
    before = [(type(p), p.shape, p.device) for p in ensemble.architecture.parameters()]
    for _ in range(2):  # nothing is left behind in the template
        with whvi.mean_mode(ensemble.architecture):
            f = ensemble.functions(x)
        for model, value in zip(models, f, strict=True):
            with whvi.mean_mode(model):
                torch.testing.assert_close(value, model(x))
    assert [(type(p), p.shape, p.device) for p in ensemble.architecture.parameters()] == before
    for other in (ensemble, copy.deepcopy(ensemble), pickle.loads(pickle.dumps(ensemble))):
        member = other.member(1)
        assert member[2] is member[4]
        if maker is nn.Linear:
            assert member[6].weight is member[2].weight
        with whvi.mean_mode(member), whvi.mean_mode(models[1]):
            assert torch.equal(member(x), models[1](x))
    prediction = predict(ensemble, x, 6, seed=0)
    torch.testing.assert_close(prediction.samples().mean(0), prediction.mean)
    if maker is nn.Linear:
        torch.testing.assert_close(prediction.samples(), torch.stack([model(x) for model in models]).detach())


class Slow(nn.Module):
    """Lets other threads run while the tensors of a member are in the template."""

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(1e-3)
        return x


def test_copies_are_whole_while_other_threads_predict() -> None:
    models, x = [nn.Sequential(nn.Linear(3, 4), Slow(), nn.Linear(4, 2)) for _ in range(3)], torch.randn(5, 3)
    ensemble = Ensemble(models)
    expected = models[2](x)

    def work(i: int) -> bool:
        if i % 2:
            return torch.allclose(ensemble.functions(x)[2], expected, atol=1e-6)
        whole = copy.deepcopy(ensemble) if i % 4 else pickle.loads(pickle.dumps(ensemble))
        one = ensemble.member(2)
        parameters = [*whole.architecture.parameters(), *one.parameters()]
        return torch.equal(one(x), expected) and all(type(p) is nn.Parameter for p in parameters)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(60)))


def test_it_is_a_module() -> None:
    models, x = members("normalised"), torch.randn(4, 3)
    ensemble = Ensemble(models, Gaussian(2))
    f = ensemble.functions(x)
    other = Ensemble(members("normalised"), Gaussian(2))
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other.functions(x), f)
    assert torch.equal(copy.deepcopy(ensemble).functions(x), f)
    double = ensemble.double()
    assert double.functions(x.double()).dtype == torch.float64
    assert double.member(0)[0].weight.dtype == torch.float64
    assert "5 x Sequential" in repr(ensemble)
    count = sum(p.numel() for p in models[0].parameters())
    assert sum(p.numel() for p in ensemble.parameters()) == 5 * (count + 1)


def test_gradients_reach_the_stack() -> None:
    models, x = members("plain", 2), torch.randn(4, 3)
    ensemble = Ensemble(models)
    ensemble.functions(x).square().sum().backward()
    models[1](x).square().sum().backward()
    found = ensemble.model_state.tensors()["0.weight"].grad
    assert found is not None
    torch.testing.assert_close(found[1], models[1][0].weight.grad)


def states_of(model: nn.Module, **changes: Tensor) -> dict[str, Tensor]:
    return {name: torch.randn(4, *value.shape) for name, value in model.named_parameters()} | changes


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ensemble([]), ArgumentError, "at least one member"),
        (lambda: Ensemble(nn.Linear(1, 1)), InputTypeError, "list of Module"),
        (
            lambda: Ensemble([nn.Linear(1, 1), 3]),  # type: ignore[list-item]
            InputTypeError,
            "one is a int",
        ),
        (lambda: Ensemble([nn.Linear(1, 1), nn.ReLU()]), ArgumentError, "one architecture"),
        (
            lambda: Ensemble([nn.Linear(1, 1), nn.Linear(2, 1)]),
            ShapeError,
            r"weight is \(1, 1\) in member 0 and \(1, 2",
        ),
        (lambda: Ensemble([nn.Linear(1, 1), nn.Linear(1, 1, bias=False)]), ShapeError, "bias is .* absent in member 1"),
        (lambda: Ensemble([nn.ReLU()]), ArgumentError, "no parameters"),
        (
            lambda: Ensemble([nn.Sequential(nn.Linear(1, 1), nn.Tanh()), nn.Sequential(nn.Linear(1, 1), nn.ReLU())]),
            ArgumentError,
            r"from member 0 to 1, model\.1\.class was 'Tanh' and is 'ReLU'",
        ),
        (
            lambda: Ensemble([nn.Sequential(nn.Linear(1, 1), nn.Dropout(p)) for p in (0.1, 0.1, 0.2)]),
            ArgumentError,
            r"from member 0 to 2, model\.1\.p was 0\.1 and is 0\.2",
        ),
        (
            lambda: Ensemble(members("plain", 2), [Gaussian(2), Gaussian(1, "input")]),
            ArgumentError,
            "likelihood.outputs was 2 and is 1",
        ),
        (
            lambda: Ensemble(members("plain", 2), [Gaussian(2)]),
            ArgumentError,
            "expected 2 likelihoods, one for each model, got 1",
        ),
        (lambda: Ensemble(members("plain", 2)).member(2), ArgumentError, "not member 2"),
        (lambda: Ensemble.from_states(nn.Linear(2, 1), {}), ArgumentError, "empty"),
        (lambda: Ensemble.from_states(nn.Linear(2, 1), {"weight": torch.ones(3, 1, 2)}), ArgumentError, r"\['bias'\]"),
        (
            lambda: Ensemble.from_states(nn.Linear(2, 1), states_of(nn.Linear(2, 1), scale=torch.ones(4))),
            ArgumentError,
            r"unknown: \['scale'\]",
        ),
        (
            lambda: Ensemble.from_states(nn.Linear(2, 1), states_of(nn.Linear(2, 1), bias=torch.ones(5, 1))),
            ShapeError,
            r"bias must have shape \(4, 1\), got \(5, 1\)",
        ),
    ],
)
def test_errors_say_what_is_wrong(make: object, error: type[WhviError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_whole_model_functions_do_not_overlook_its_layers() -> None:
    """They have no common KL or draw, and none of them is zero or fixed."""
    ensemble = Ensemble([nn.Sequential(WHVILinear(3, 4), nn.Linear(4, 1)) for _ in range(2)])
    wrapped = nn.Sequential(nn.Linear(3, 3), ensemble)
    for call in (whvi.kl, whvi.sampling, whvi.mean_mode, whvi.to_dense, lambda model: predict(model, torch.ones(2, 3))):
        with pytest.raises(WhviError, match=r"holds a Ensemble of networks with Bayesian layers.*\.member\(i\)"):
            call(wrapped)
    with pytest.raises(WhviError, match="no common KL"):
        whvi.kl(ensemble)
    assert predict(ensemble, torch.ones(2, 3), 4).mean.shape == (2, 1)
    assert float(whvi.kl(Ensemble([nn.Linear(3, 4), nn.Linear(3, 4)]))) == 0.0
