"""Adapters on disk, and merged into their base."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from adaptable import KINDS, Attended, QuantLinear, made
from torch import Tensor, nn

import whvi
from whvi.adapters import adapt, load_adapter, merge, save_adapter, unload, use
from whvi.errors import ArgumentError, CheckpointError, UnsupportedError, WhviError
from whvi.io import checkpoint
from whvi.nn.beside import slots
from whvi.nn.model import bayesian_layers
from whvi.posterior import ConstantWeightVariance, DiagonalGaussian, GaussianPrior


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 16))


def disturbed(adapted: nn.Module) -> nn.Module:
    """Adapted, with deltas that are not where they started."""
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return adapted


def drawn(adapted: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    with torch.no_grad(), whvi.sampling(adapted):
        return adapted(x)


X = torch.linspace(-1.0, 1.0, 80).reshape(5, 16)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"terms": 2, "posterior": "low_rank:2", "structure": "SHGPHS"},
        {"prior_variance": GaussianPrior(0.5, learned=True), "spread": 0.3},
        {"prior_variance": ConstantWeightVariance(0.01), "rule": ("0",)},
        {"train_base": True},
        {"train_base": ("3",), "draws": "batch"},
    ],
    ids=str,
)
def test_saved_and_loaded_it_predicts_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    base = model()
    adapted, other = disturbed(adapt(copy.deepcopy(base), **options).model), copy.deepcopy(base)
    adapted(X)  # moves running statistics
    save_adapter(adapted.eval(), tmp_path)
    state = torch.random.get_rng_state()
    assert load_adapter(other.eval(), tmp_path) is other
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(drawn(adapted, X), drawn(other, X))
    torch.testing.assert_close(whvi.kl(adapted), whvi.kl(other), rtol=0.0, atol=0.0)
    assert [p.requires_grad for p in adapted.parameters()] == [p.requires_grad for p in other.parameters()]


def test_adapters_by_name_in_folders_of_their_own(tmp_path: Path) -> None:
    adapted = model().eval()
    for name in ("one", "two"):
        disturbed(adapt(adapted, name=name).model)
    wanted = drawn(use_(adapted, "one"), X)
    use(adapted, "two")
    save_adapter(adapted, tmp_path / "one", name="one")
    save_adapter(adapted, tmp_path / "two")
    save_adapter(adapted, tmp_path / "two")  # in place of the first
    fresh = load_adapter(load_adapter(model().eval(), tmp_path / "two"), tmp_path / "one", name="uno")
    assert torch.equal(drawn(fresh, X), wanted)
    assert torch.equal(drawn(use_(fresh, "two"), X), drawn(use_(adapted, "two"), X))
    assert len(checkpoint.steps(tmp_path / "two")) == 1


def use_(adapted: nn.Module, name: str) -> nn.Module:
    use(adapted, name)
    return adapted


def test_a_file_for_another_model_is_refused_and_leaves_it_alone(tmp_path: Path) -> None:
    save_adapter(disturbed(adapt(model()).model), tmp_path)
    other = model()
    with torch.no_grad():
        other[3].weight[0, 0] += 1e-6
    wider = nn.Sequential(*model(), nn.Linear(16, 16))
    for wrong, said in (
        (other, "other numbers: 3.weight"),
        (wider, "does not know: 4.weight"),
        (model().half(), "other numbers: 0.bias, 0.weight"),
    ):
        before = {name: value.clone() for name, value in wrong.state_dict().items()}
        with pytest.raises(CheckpointError, match="belongs to another base") as caught:
            load_adapter(wrong, tmp_path)
        assert said in str(caught.value)
        assert before.keys() == wrong.state_dict().keys()
        assert all(torch.equal(value, before[name]) for name, value in wrong.state_dict().items())
        assert all(p.requires_grad for p in wrong.parameters())


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    save_adapter(adapt(model()).model, tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(bytes(data))
    fresh = model()
    with pytest.raises(CheckpointError, match="sha256"):
        load_adapter(fresh, tmp_path)
    assert not any(slots(fresh))


def test_numbers_that_do_not_fit_the_recipe_are_refused(tmp_path: Path) -> None:
    save_adapter(adapt(model()).model, tmp_path)
    step, tensors, state = checkpoint.load(tmp_path)
    checkpoint.save(tmp_path, step + 1, {k: v[:-1] for k, v in tensors.items() if v.ndim}, state)
    fresh = model()
    with pytest.raises(CheckpointError):
        load_adapter(fresh, tmp_path)
    assert not any(slots(fresh))


def test_other_mistakes_are_named(tmp_path: Path) -> None:
    adapted = adapt(model()).model
    save_adapter(adapted, tmp_path / "a")
    checkpoint.save(tmp_path / "b", 0, {}, {"format": "whvi estimator"})
    own = adapt(model(), posterior=lambda mean: DiagonalGaussian(mean)).model
    cases: list[tuple[Any, str]] = [
        (lambda: load_adapter(adapted, tmp_path / "a"), "'default' already"),
        (lambda: load_adapter(model(), tmp_path / "b"), "not of an adapter"),
        (lambda: load_adapter(model(), tmp_path / "c"), "has no checkpoint"),
        (lambda: save_adapter(adapted, tmp_path / "b"), "of another kind"),
        (lambda: save_adapter(adapted, tmp_path / "d", name="none"), "no adapter 'none'"),
        (lambda: save_adapter(model(), tmp_path / "d"), "has no adapters"),
        (lambda: save_adapter(own, tmp_path / "d"), "name it by a string"),
        (lambda: save_adapter(use_none(adapted), tmp_path / "d"), "no adapter None"),
    ]
    for call, said in cases:
        with pytest.raises(WhviError, match=said):
            call()


def use_none(adapted: nn.Module) -> nn.Module:
    use(adapted, None)
    return adapted


@pytest.mark.parametrize("kind", KINDS)
def test_merged_it_is_the_mean_or_one_draw(kind: str) -> None:
    base, x = made(kind)
    adapted = disturbed(adapt(base, rule="*", spread=0.5).model)
    plain = merge(adapted)
    assert not any(slots(plain))
    assert not bayesian_layers(plain)
    with whvi.mean_mode(adapted):
        torch.testing.assert_close(plain(x), adapted(x))
    with whvi.sampling(adapted, 1, torch.Generator().manual_seed(3)) as draws:
        y = adapted(x)
        torch.testing.assert_close(merge(adapted, 3)(x), y)
        torch.testing.assert_close(merge(adapted, draws)(x), y)
    assert any(slots(adapted))
    assert {n: p.shape for n, p in plain.named_parameters()} == {
        n: p.shape for n, p in made(kind)[0].named_parameters()
    }
    assert all(p.requires_grad for p in plain.parameters())
    with whvi.mean_mode(adapted):
        y = adapted(x)
    assert merge(adapted, inplace=True) is adapted
    torch.testing.assert_close(adapted(x), y)


def test_merging_does_not_touch_what_was_tied() -> None:
    words, head = nn.Embedding(16, 16), nn.Linear(16, 16, bias=False)
    head.weight = words.weight
    both = nn.ModuleList([words, head])
    plain = merge(disturbed(adapt(both).model))
    assert torch.equal(plain[0].weight, words.weight)  # type: ignore[arg-type]
    assert not torch.equal(plain[1].weight, words.weight)  # type: ignore[arg-type]


def test_what_cannot_be_merged_stays_as_it_is() -> None:
    packed = adapt(nn.Sequential(nn.Linear(16, 16), QuantLinear(16, 16))).model
    weight = packed[0].weight  # type: ignore[index]
    for inplace in (True, False):
        with pytest.raises(UnsupportedError, match="1: the weight of this QuantLinear"):
            merge(packed, inplace=inplace)
    assert packed[0].weight is weight  # type: ignore[index]
    assert len(bayesian_layers(packed)) == 2
    use(packed, None)
    with pytest.raises(ArgumentError, match="no adapter of this model is active"):
        merge(packed)


def test_attention_goes_to_disk_and_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    adapted = disturbed(adapt(Attended()).model)
    x = torch.randn(2, 3, 16)
    save_adapter(adapted, tmp_path)
    wanted = drawn(adapted, x)
    assert torch.equal(drawn(load_adapter(unload(adapted), tmp_path), x), wanted)


def test_a_folder_of_parts_of_two_adapters_is_refused(tmp_path: Path) -> None:
    for seed, name in enumerate(("one", "two")):
        adapted = adapt(model(), spread=0.1).model
        torch.manual_seed(seed)
        save_adapter(disturbed(adapted), tmp_path / name)
    for kind in (".json", ".safetensors"):
        (ours,) = (tmp_path / "one").glob(f"*{kind}")
        (theirs,) = (tmp_path / "two").glob(f"*{kind}")
        before = ours.read_bytes()
        ours.write_bytes(theirs.read_bytes())
        plain = model()
        with pytest.raises(CheckpointError, match="is damaged or of another origin"):
            load_adapter(plain, tmp_path / "one")
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model().parameters(), strict=True))
        ours.write_bytes(before)
