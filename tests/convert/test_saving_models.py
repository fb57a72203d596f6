"""Converted models as folders: the same bits again, and what is damaged, forged or of another model is refused."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.convert import bayesianize, load_model, save_model, to_dense
from whvi.convert.conversion import conversions
from whvi.convert.saving import RECIPE, TENSORS
from whvi.errors import CheckpointError, InputTypeError, UnsupportedError
from whvi.io import canonical
from whvi.io import folder as sealed
from whvi.nn import MCDropout, WHVILinear
from whvi.posterior import GaussianPrior


class Mixed(nn.Module):
    """A table tied to the head, convolutions, attention, batch normalisation, a frozen bias."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 16)
        self.conv, self.norm = nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm1d(16)
        self.up = nn.ConvTranspose1d(16, 16, 2, 2, groups=2)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.one, self.other, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 11, bias=False)
        self.other.weight, self.head.weight = self.one.weight, self.table.weight
        self.one.bias.requires_grad_(False)
        for part in (self.conv, self.up, self.one, self.other):
            nn.init.normal_(part.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.up(self.norm(self.conv(self.table(tokens).mT))).mT
        x = x + self.attention(x, x, x)[0]
        found: Tensor = self.head(self.other(self.one(x).tanh()))
        return found


X = torch.randint(11, (3, 5), generator=torch.Generator().manual_seed(0))


def same(one: nn.Module, other: nn.Module) -> None:
    """The same names and bits, and the same function of the same seed."""
    states = one.state_dict(), other.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert [p.requires_grad for p in one.parameters()] == [p.requires_grad for p in other.parameters()]
    means = [whvi.predict(model, X, 2, seed=0).mean for model in (one, other)]
    assert torch.equal(*means)
    assert torch.equal(whvi.kl(one), whvi.kl(other))


OPTIONS: dict[str, dict[str, Any]] = {
    "fresh": {"init": "prior"},
    "terms": {"init": "prior", "terms": 2, "share_g": False, "posterior": "low_rank:2", "bias": "point"},
    "grid": {"init": "prior", "layout": "grid", "block": 4, "prior_variance": GaussianPrior(2.0, learned=True)},
    "permuted": {"init": "prior", "structure": "SHGPHS", "pad_to": "order"},
    "some": {"rule": ["attention", "up"], "scales": "diagonal", "draws": "batch"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_a_model_comes_back_in_the_same_bits(options: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(1)
    dense = Mixed()
    rule = options.get("rule", lambda name, module: True)
    model = bayesianize(dense, **{**options, "rule": rule}).model
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    save_model(model, tmp_path / "model")
    torch.manual_seed(2)
    fresh, state = Mixed(), torch.get_rng_state()
    before = copy.deepcopy(fresh.state_dict())
    loaded = load_model(fresh, tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in fresh.state_dict().items())
    same(model.eval(), loaded.eval())
    same(model, load_model(model, tmp_path / "model").eval())  # it has its layers already
    assert loaded.get_parameter("head.weight") is loaded.get_parameter("table.weight")


def test_several_conversions_are_followed_in_order(tmp_path: Path) -> None:
    model = bayesianize(Mixed(), rule="conv").model
    bayesianize(model, rule="up", terms=2, inplace=True)
    model = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert [each.layers for each in conversions(model)] == [("conv",), ("up",)]
    save_model(model, tmp_path)  # an empty folder
    save_model(model, tmp_path)
    same(model.eval(), load_model(Mixed(), tmp_path).eval())


def test_layers_by_hand_and_a_layer_alone(tmp_path: Path) -> None:
    made = [nn.Sequential(nn.Embedding(11, 8), WHVILinear(8, 8)) for _ in range(2)]
    save_model(made[0], tmp_path / "hand")
    same(made[0], load_model(made[1], tmp_path / "hand"))
    save_model(bayesianize(nn.Linear(64, 64)).model, tmp_path / "alone")
    assert isinstance(load_model(nn.Linear(64, 64), tmp_path / "alone"), WHVILinear)


def test_a_dense_model_has_no_recipe() -> None:
    assert conversions(to_dense(bayesianize(nn.Linear(64, 64)).model)) == ()


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(bayesianize(small()).model, tmp_path / "model")
    return tmp_path / "model"


def edited(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the recipe as a forger would, with a manifest that fits."""
    recipe = canonical.parse((folder / RECIPE).read_bytes())
    change(recipe)
    (folder / RECIPE).write_bytes(canonical.dump(recipe))
    sealed.seal(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda recipe: recipe.update(version=2), "upgrade whvi"),
        (lambda recipe: recipe.update(format="other"), "no model that"),
        (lambda recipe: recipe.pop("conversions"), "does not fit this model"),
        (lambda recipe: recipe["conversions"][0].update(layers=["9"]), "no module '9'"),
        (lambda recipe: recipe["conversions"][0].update(layers=["0"]), "another one .missing in the file: 1.bias"),
        (lambda recipe: recipe["conversions"][0]["options"].update(terms=10**9), "needs .* numbers, but the file has"),
        (lambda recipe: recipe["conversions"][0]["options"].update(posterior="low_rank:1000000"), "needs"),
        (lambda recipe: recipe["conversions"][0]["options"].update(posterior="none"), "does not fit this model"),
        (lambda recipe: recipe["conversions"][0]["options"].update(other=1), "does not fit this model"),
        (lambda recipe: recipe["conversions"][0]["options"].update(prior_variance={}), "not a prior"),
    ],
)
def test_a_forged_recipe_is_refused(saved: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    edited(saved, change)
    with pytest.raises(CheckpointError, match=message):
        load_model(small(), saved)


@pytest.mark.parametrize("name", [RECIPE, TENSORS, sealed.NAME])
def test_a_damaged_folder_is_refused(saved: Path, name: str) -> None:
    data = bytearray((saved / name).read_bytes())
    data[len(data) // 2] ^= 1
    (saved / name).write_bytes(data)
    with pytest.raises(CheckpointError):
        load_model(small(), saved)
    (saved / name).unlink()
    with pytest.raises(CheckpointError, match=f"{RECIPE}|is missing"):
        load_model(small(), saved)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(32, 32)), "no module '1'"),
        (lambda: nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 32)), "needs|of another shape"),
        (lambda: small().double(), "of another dtype"),
        (lambda: nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(2, 2)), "missing in the file: 2.bias"),
    ],
    ids=["fewer", "larger", "double", "more"],
)
def test_another_model_is_refused(saved: Path, model: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        load_model(model(), saved)


def test_what_cannot_be_saved_says_what_to_do(tmp_path: Path) -> None:
    own = bayesianize(small(), rule=lambda name, module: MCDropout(module) if name == "0" else False).model
    function = bayesianize(small(), posterior=lambda mean: whvi.posterior.DiagonalGaussian(mean)).model
    cases: dict[str, Any] = {
        "created its own layers .0.": own,
        "posterior of this conversion is a function": function,
        "save model.0": nn.Sequential(bayesianize(small()).model),
        "whvi.save_adapter": whvi.adapt(small()).model,
    }
    for message, model in cases.items():
        with pytest.raises(UnsupportedError, match=message):
            save_model(model, tmp_path / "model")
    with pytest.raises(InputTypeError):
        save_model(cases, tmp_path / "model")
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="choose another"):
        save_model(bayesianize(small()).model, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


class Whole(nn.Sequential):
    """As models of Hugging Face, as far as this matters."""

    def save_pretrained(self, folder: Path) -> None:
        (folder / "keys.json").write_text(json.dumps(list(self.state_dict())))


def test_save_pretrained_of_a_converted_model_is_not_silent(tmp_path: Path) -> None:
    model = copy.deepcopy(bayesianize(Whole(nn.Linear(32, 32))).model)
    with pytest.warns(UserWarning, match=r"whvi\.load_model"):
        model.save_pretrained(tmp_path)
    assert "0.g.mean" in json.loads((tmp_path / "keys.json").read_text())
    to_dense(model).save_pretrained(tmp_path)  # a warning would be an error here
