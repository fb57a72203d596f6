"""Adapters on whole models: what is chosen, what is left alone, and all that a model goes through afterwards."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from adaptable import Attended, Conv1D, QuantLinear
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

import whvi
from whvi.adapters import adapt, unload, use
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError, WhviError
from whvi.inference import SVI, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.nn import WHVIConv1d, WHVIConv2d, WHVILinear
from whvi.nn.beside import slots
from whvi.nn.model import bayesian_layers


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))


class Everything(nn.Module):
    """A module of each kind, some in two places, a tie, and what has no delta."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 16)
        self.first = nn.Linear(16, 16)
        self.again = self.first
        self.filters, self.signal = nn.Conv2d(8, 8, 3), nn.Conv1d(8, 16, 3)
        self.attended, self.gpt = Attended(), Conv1D(16, 16)
        self.packed, self.normed = QuantLinear(16, 16), weight_norm(nn.Linear(16, 16))
        self.memory, self.pair = nn.RNN(16, 16), nn.Bilinear(16, 16, 2)
        self.narrow, self.lazy = nn.Linear(16, 1), nn.LazyLinear(4)
        self.head = nn.Linear(16, 16, bias=False)
        self.head.weight = self.words.weight


def test_each_kind_is_found_and_the_report_says_it() -> None:
    model = Everything()
    same, report = adapt(model, skip="normed")
    assert same is model
    kinds = {path: type(slot.delta) for path, _, slot in slots(model)}
    linear = dict.fromkeys(("first", "gpt", "packed", "head"), WHVILinear)
    assert kinds == {
        **linear,
        "filters": WHVIConv2d,
        "signal": WHVIConv1d,
        "attended.attention": nn.ModuleDict,
    }
    assert {row.name for row in report.adapted} == kinds.keys()
    assert model.again is model.first
    assert model.head.weight is model.words.weight
    assert report.numbers == sum(p.numel() for p in model.parameters() if p.requires_grad) == report.trained
    text = str(report)
    assert "packed: its weight is not read" in text
    assert "memory (RNN): RNN has no delta here" in text
    assert "lazy (LazyLinear): lazy, with no shape yet" in text
    assert "narrow (Linear): its delta would have 64 numbers, its weight has 16" in text
    assert "normed (ParametrizedLinear): skipped" in text
    assert 'draws="batch"' in text  # a model with attention


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"rule": "0"}, {"0"}),
        ({"rule": ("0", "2")}, {"0", "2"}),
        ({"rule": lambda name, module: np.bool_(name == "2")}, {"2"}),
        ({"rule": nn.Linear, "skip": "2"}, {"0"}),
        ({"skip": nn.Tanh}, {"0", "2"}),
    ],
    ids=["name", "names", "function", "type", "all but"],
)
def test_rules(options: dict[str, Any], wanted: set[str]) -> None:
    model, _ = adapt(mlp(), **options)
    assert {path for path, _, _ in slots(model)} == wanted


BAD: dict[str, tuple[Any, str]] = {
    "no match": (lambda m: adapt(m, rule=nn.Conv2d), "nothing in this model can be adapted"),
    "no layer": (lambda m: adapt(nn.ReLU()), "it has no linear layers"),
    "no such name": (lambda m: adapt(m, rule="layers.7"), "no module of this model is called 'layers.7'"),
    "a module from the rule": (lambda m: adapt(m, rule=lambda n, _: nn.Linear(1, 1)), "must return a bool"),
    "twice": (lambda m: adapt(adapt(m).model), "has an adapter 'default' already"),
    "a part": (lambda m: (adapt(m[0]), adapt(m, name="b")), "a part of this model"),
    "the whole": (lambda m: (adapt(m), adapt(m[0], name="b")), "a part of this model"),
    "no adapter": (lambda m: use(m, "one"), "has no adapters"),
    "no adapters to unload": (lambda m: unload(m), "has no adapters"),
    "no such adapter": (lambda m: use(adapt(m).model, "one"), "no adapter 'one'; it has 'default'"),
    "no name": (lambda m: adapt(m, name=""), "name must be a non-empty string"),
    "no model": (lambda m: adapt(3), "must be a torch.nn.Module"),
    "spread": (lambda m: adapt(m, spread=0.0), "spread"),
    "terms": (lambda m: adapt(m, terms=0), "terms"),
    "draws": (lambda m: adapt(m, draws="rows"), "draws must be"),
    "no option": (lambda m: adapt(m, ranks=3), "no option 'ranks'"),
    "a flow": (lambda m: adapt(m, posterior=lambda mean: whvi.posterior.Point(mean + 1)), "a mean other than the zero"),
    "meta": (lambda m: adapt(m.to("meta")), "meta device"),
    "train_base": (lambda m: adapt(m, train_base=(3,)), "train_base must be"),
    "no such parameter": (lambda m: adapt(m, train_base="*head"), "no parameter of this model is called"),
    "to_dense": (lambda m: whvi.to_dense(adapt(m).model), "adapters.merge"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_and_leave_the_model_alone(case: str) -> None:
    call, said = BAD[case]
    model = mlp()
    before = list(model.state_dict())
    with pytest.raises(WhviError, match=said):
        call(model)
    if not any(slots(model)):
        assert list(model.state_dict()) == before
        assert all(p.requires_grad for p in model.parameters())


def test_a_weight_of_nan_leaves_the_model_alone() -> None:
    model = mlp()
    nn.init.constant_(model[2].weight, float("nan"))
    with pytest.raises(ArgumentError, match="2: its weight has NaN"):
        adapt(model)
    assert not any(slots(model))


class Pair(nn.Linear):
    """Gives more than a tensor."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x), None


def test_an_output_that_is_no_tensor_is_named() -> None:
    with pytest.raises(UnsupportedError, match="this Pair returned a tuple"):
        adapt(Pair(16, 16)).model(torch.randn(2, 16))


class OwnAttention(nn.MultiheadAttention):
    """Another forward, which deltas on its weights would not reach."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def test_attention_with_a_forward_of_its_own_is_left() -> None:
    with pytest.raises(ArgumentError, match="OwnAttention has a forward of its own"):
        adapt(OwnAttention(16, 4))


def test_hooks_of_the_model_see_the_sum() -> None:
    """Law: a hook sees what it would see if the weight were W0 + delta; inputs are those that hooks have changed."""
    model, x, seen = nn.Linear(16, 16), torch.randn(3, 16), []
    model.register_forward_hook(lambda module, args, y: seen.append(y) or 2.0 * y)
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,))
    adapt(model)
    with whvi.sampling(model) as draws:
        y = model(x)
    (layer,) = bayesian_layers(model)
    wanted = nn.functional.linear(x + 1.0, model.weight + layer.weight_at(draws[layer]), model.bias)
    torch.testing.assert_close(seen[0], wanted)
    torch.testing.assert_close(y, 2.0 * wanted)
    unload(model)
    torch.testing.assert_close(model(x), 2.0 * nn.functional.linear(x + 1.0, model.weight, model.bias))


def test_a_keyword_is_an_input_too() -> None:
    model, x = adapt(nn.Linear(16, 16)).model, torch.randn(3, 16)
    with whvi.sampling(model):
        assert torch.equal(model(input=x), model(x))


def test_one_module_in_two_places_has_one_delta_and_one_draw() -> None:
    layer = nn.Linear(16, 16)
    model, x = nn.Sequential(layer, layer), torch.randn(3, 16)
    adapt(model)
    assert len(bayesian_layers(model)) == 1
    with whvi.sampling(model):
        assert torch.equal(model(x), layer(layer(x)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    model, x = mlp().to(dtype), torch.randn(3, 16).to(dtype)
    before = model(x)
    adapt(model)
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert model(x).dtype == dtype
    model(x).float().sum().backward()
    with whvi.mean_mode(model):
        assert torch.equal(model(x), before)


def test_autocast() -> None:
    model, x = mlp(), torch.randn(3, 16)
    with torch.autocast("cpu", torch.bfloat16):
        before = model(x)
        adapt(model)
        assert model(x).dtype == torch.bfloat16
        with whvi.mean_mode(model):
            assert torch.equal(model(x), before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor")
def test_quantised() -> None:
    model, x = nn.Sequential(QuantLinear(16, 16), nn.Tanh(), QuantLinear(16, 16)), torch.randn(5, 16)
    before = model(x)
    adapt(model)
    with whvi.mean_mode(model):
        assert torch.equal(model(x), before)
    assert not torch.equal(model(x), before)
    dynamic = pytest.importorskip("torch.ao.quantization").quantize_dynamic(mlp(), {nn.Linear})
    assert len(adapt(dynamic).report.adapted) == 2
    assert dynamic(x).shape == (5, 16)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_adapted_models_of_their_own(copied: Any) -> None:
    model, x = nn.Sequential(mlp(), Attended()), torch.randn(2, 3, 16)
    adapt(model)
    adapt(model, name="other")
    use(model, "default")
    other = copied(model)
    outputs = []
    for each in (model, other):
        torch.manual_seed(0)
        with whvi.sampling(each):
            outputs.append(each(x))
    assert torch.equal(*outputs)
    nn.init.ones_(next(p for p in other.parameters() if p.requires_grad))
    use(other, "other")
    assert next(iter(slots(model)))[2].name == "default"
    unload(other)
    assert list(other.state_dict()) == list(nn.Sequential(mlp(), Attended()).state_dict())
    assert len(list(slots(model))) == 3


def test_a_checkpointed_pass_draws_the_same_again() -> None:
    model, x = mlp(), torch.randn(3, 16)
    adapt(model)
    grads = []
    for run in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
        torch.manual_seed(0)
        model.zero_grad()
        run(x).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(grads[0]) > 4
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_adapted_models_compile(kind: str) -> None:
    torch._dynamo.reset()
    model, x = (mlp(), torch.randn(4, 16)) if kind == "mlp" else (Attended(), torch.randn(4, 3, 16))
    adapt(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for way in (1, 2):
        with whvi.sampling(model, way):
            torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_several_adapters_share_a_base() -> None:
    model, x = mlp(), torch.randn(3, 16)
    adapt(model, name="one", rule="0")
    adapt(model, name="two", terms=2, train_base="2")
    kinds = {"one": (1, False), "two": (2, True)}
    for name in ("one", "two", "one"):
        use(model, name)
        count, head = kinds[name]
        layers = bayesian_layers(model)
        assert len(layers) == count
        assert model[2].weight.requires_grad == head
        assert not model[0].weight.requires_grad
        torch.testing.assert_close(whvi.kl(model), sum(layer.kl() for layer in layers))
        assert sum(p.requires_grad for p in model.parameters()) == 4 * count + 2 * head
    with whvi.sampling(model):
        y = model(x)
        use(model, None)
        assert not torch.equal(y, model(x))
    assert not bayesian_layers(model)


def test_a_delta_that_waited_moves_with_the_model() -> None:
    model = mlp()
    adapt(model, name="one")
    adapt(model, name="two")
    model.to("meta")
    use(model, "one")
    assert all(p.is_meta for p in model.parameters())


@pytest.mark.parametrize("train_base", [False, True, "2"])
def test_what_trains(train_base: Any) -> None:
    model = mlp()
    model[0].bias.requires_grad_(False)
    adapt(model, train_base=train_base)
    wanted = {False: set(), True: {"0.weight", "2.weight", "2.bias"}, "2": {"2.weight", "2.bias"}}[train_base]
    assert {n for n, p in model.named_parameters() if p.requires_grad and "whvi" not in n} == wanted
    unload(model)
    assert [n for n, p in model.named_parameters() if not p.requires_grad] == ["0.bias"]


def test_fit_predict_and_replicas() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    y = x[:, :1].sin()
    base = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    models = [copy.deepcopy(base) for _ in range(2)]
    for model in models:
        adapt(model, rule=nn.Linear, skip="2")
    alone, likelihood = copy.deepcopy(models[0]), Gaussian()
    whvi.fit(alone, likelihood, (x, y), steps=5, algorithm=SVI(1e-2), seed=0, batch_size=16)
    assert torch.equal(alone[0].weight, base[0].weight)
    prediction = whvi.predict(alone, x[:4], samples=6, likelihood=likelihood)
    assert prediction.mean.shape == (4, 1)
    both = fit_replicas(
        models, [Gaussian(), Gaussian()], [(x, y)] * 2, steps=5, algorithm=SVI(1e-2), seeds=[0, 1], batch_size=16
    )
    assert whvi.predict(both.posterior, x[:4], samples=4).samples().shape == (4, 4, 1)
    for (name, one), other in zip(alone.named_parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=name)


def test_encoders_of_torch_call_their_deltas() -> None:
    """Law: in eval mode, with a padding mask, where torch would take its fast path and skip all modules."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).eval()
    x, mask = torch.randn(4, 5, 16), torch.arange(5).expand(4, 5) > 2
    for rule in ("layers.0.self_attn", "layers.0.linear1"):
        adapt(encoder, rule=rule, spread=0.5)
        with torch.no_grad(), whvi.sampling(encoder, 2):
            y = encoder(x[:2].repeat(2, 1, 1), src_key_padding_mask=mask)
            assert not torch.allclose(y[:2], y[2:], atol=1e-3)
        unload(encoder)
        assert encoder.use_nested_tensor


def test_parts_that_do_not_fit_are_named() -> None:
    model = adapt(Attended()).model
    with whvi.sampling(model, 3), pytest.raises(WhviError, match="must be 3 equal parts"):
        model(torch.randn(4, 2, 16))


def test_masks_go_with_their_parts() -> None:
    """Law: several draws at once are those draws one by one, with masks for each sequence and each head."""
    attention = nn.MultiheadAttention(16, 2).double()
    adapt(attention, spread=0.5)
    x, padding = torch.randn(5, 6, 16).double(), torch.rand(6, 5) > 0.7
    padding[:, 0] = False
    mask = torch.randn(12, 5, 5).double()
    padding = torch.zeros(6, 5).double().masked_fill(padding, -1e9)
    with whvi.sampling(attention, 3) as draws:
        y, weights = attention(x, x, x, padding, attn_mask=mask)
    assert y.shape == x.shape
    assert weights.shape == (6, 5, 5)
    shifted = {}
    for part in range(3):
        for layer, draw in draws.items():
            shifted[layer] = draw
        with whvi.sampling(attention, shifted):
            rows = x[:, 2 * part : 2 * part + 2].repeat(1, 3, 1)
            again, attended = attention(
                rows,
                rows,
                rows,
                padding[2 * part : 2 * part + 2].repeat(3, 1),
                attn_mask=mask[4 * part : 4 * part + 4].repeat(3, 1, 1),
            )
        torch.testing.assert_close(again[:, 2 * part : 2 * part + 2], y[:, 2 * part : 2 * part + 2])
        torch.testing.assert_close(attended[2 * part : 2 * part + 2], weights[2 * part : 2 * part + 2])


def test_a_rule_of_another_type_is_named() -> None:
    with pytest.raises(InputTypeError, match="a bool, a module or None, got int"):
        adapt(mlp(), rule=lambda name, module: 3)  # type: ignore[arg-type, return-value]
