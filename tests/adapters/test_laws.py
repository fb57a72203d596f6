"""A delta beside a module is a delta on its weight: in value and gradient, for each kind of module and of draws."""

import copy
from collections.abc import Callable

import pytest
import torch
from adaptable import KINDS, Conv1D, made
from torch import Tensor, nn
from torch.func import functional_call

import whvi
from whvi.adapters import adapt, unload, use
from whvi.nn.beside import plus, slots
from whvi.nn.draws import Draws
from whvi.nn.model import bayesian_layers
from whvi.testing import cover_pairs

POSTERIORS = ("diagonal", "low_rank:2", "full", "point")
PLANTED = (("Attention", "diagonal", 1, 1),)  # tests/test_mutations.py looks for a mistake with it
WAYS: tuple[int | str, ...] = (1, 3, "example")


def with_deltas(model: nn.Module, base: nn.Module, draws: Draws, part: int | None) -> dict[str, Tensor]:
    """Parameters of the base with the deltas added, at one of several draws."""
    found: dict[str, Tensor] = {}
    for path, module, slot in slots(model):
        prefix = f"{path}." if path else ""
        assert slot.delta is not None
        layers = dict(slot.delta.items()) if isinstance(slot.delta, nn.ModuleDict) else {"": slot.delta}
        deltas = {}
        for name, layer in layers.items():
            weight = layer.weight_at(draws[layer])  # type: ignore[operator]
            deltas[name] = weight if part is None else weight[part]
        if "" in deltas:
            names = {"weight": deltas[""].mT if isinstance(module, Conv1D) else deltas[""]}
        else:
            q, k, v, out = deltas.values()
            same = module.in_proj_weight is not None
            inner = {"in_proj_weight": torch.cat((q, k, v))} if same else {
                "q_proj_weight": q, "k_proj_weight": k, "v_proj_weight": v
            }  # fmt: skip
            names = {**inner, "out_proj.weight": out}
        found |= {prefix + name: base.get_parameter(prefix + name) + delta for name, delta in names.items()}
    return found


def rows_are_examples(kind: str, posterior: str, terms: int, way: int | str) -> bool:
    """A linear layer draws for each token, where it draws for each example."""
    return way != "example" or kind not in ("LinearOfTokens", "Conv1D")


@pytest.mark.parametrize(
    ("kind", "posterior", "terms", "way"),
    cover_pairs(tuple(KINDS), POSTERIORS, (1, 2), WAYS, keep=rows_are_examples, first=PLANTED),
    ids=str,
)
def test_forward_is_the_base_with_another_weight(kind: str, posterior: str, terms: int, way: int | str) -> None:
    model, x = made(kind)
    base = copy.deepcopy(model)
    adapt(model, rule="*", posterior=posterior, terms=terms, spread=0.5)
    for layer in bayesian_layers(model):
        nn.init.normal_(layer.g.mean)  # type: ignore[union-attr, arg-type]
    x.requires_grad_()
    parameters = [x, *(p for p in model.parameters() if p.requires_grad)]
    count = {1: 1, 3: 3, "example": 6}[way]
    with whvi.sampling(model, way) as draws:
        actual = model(x)
    if way == "example":
        draws = {layer: draw and draw._replace(shape=(6,)) for layer, draw in draws.items()}
    parts = [
        functional_call(base, with_deltas(model, base, draws, None if way == 1 else i), (rows,))
        for i, rows in enumerate(x.chunk(count))
    ]
    expected = torch.cat(parts)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(actual, base(x), atol=1e-3)
    seed = torch.randn_like(actual)
    for found, wanted in zip(
        *(torch.autograd.grad(y, parameters, seed, allow_unused=True) for y in (actual, expected)), strict=True
    ):
        assert (found is None) == (wanted is None)
        if found is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_at_the_start_is_the_base_bit_for_bit(kind: str) -> None:
    model, x = made(kind)
    before = model(x)
    names = list(model.state_dict())
    modules = dict(model.named_modules())
    bits = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    adapt(model, rule="*")
    assert {name: modules[name] for name in modules} == {n: m for n, m in model.named_modules() if n in modules}
    with whvi.mean_mode(model):
        assert same_bits(model(x), before)
    assert not torch.equal(model(x), before)
    assert whvi.kl(model).abs() < 1e-12
    use(model, None)
    assert same_bits(model(x), before)
    assert unload(model) is model
    assert list(model.state_dict()) == names
    assert all(same_bits(tensor, bits[name]) for name, tensor in model.state_dict().items())
    assert {name: p.requires_grad for name, p in model.named_parameters()} == flags
    assert {name: type(module) for name, module in modules.items()} == {
        name: type(module) for name, module in made(kind)[0].named_modules()
    }
    assert same_bits(model(x), before)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.detach().view(torch.int64), other.detach().view(torch.int64))


def test_zeros_keep_their_signs() -> None:
    base, zero = torch.tensor([0.0, -0.0, 0.0, -0.0]).double(), torch.tensor([0.0, 0.0, -0.0, -0.0]).double()
    assert same_bits(plus(base, zero), base)
    half = torch.tensor([0.1, -0.0], dtype=torch.bfloat16)
    assert plus(half, zero[:2]).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["Linear", "Conv2d", "Conv1d", "Attention"])
@pytest.mark.parametrize("terms", [1, 3])
def test_spread_is_that_of_the_weights_at_the_start(kind: str, terms: int) -> None:
    torch.manual_seed(0)
    make: Callable[[], nn.Module] = {
        "Linear": lambda: nn.Linear(64, 256),
        "Conv2d": lambda: nn.Conv2d(16, 64, 3, groups=2),
        "Conv1d": lambda: nn.Conv1d(16, 256, 4),
        "Attention": lambda: nn.MultiheadAttention(64, 4),
    }[kind]
    model = make()
    weight = model.in_proj_weight if isinstance(model, nn.MultiheadAttention) else model.weight
    size = weight.detach().square().mean().sqrt()  # type: ignore[operator]
    adapt(model, spread=0.3, terms=terms)
    layers = bayesian_layers(model)[:3]
    spread = torch.stack([layer.weight_at(layer.draw((50,))) for layer in layers]).std()
    assert 0.2 < spread / size < 0.4
    assert whvi.kl(model).abs() < 1e-3  # the posterior is the prior


def test_kl_is_that_of_the_deltas() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    adapt(model, posterior="full")
    layers = bayesian_layers(model)
    for layer in layers:
        nn.init.normal_(layer.g.mean)  # type: ignore[union-attr, arg-type]
    total = whvi.kl(model)
    assert total > 1.0
    torch.testing.assert_close(total, sum(layer.kl() for layer in layers))
