"""A dense model becomes a Bayesian one: what is replaced, what is kept, what is left."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import whvi
from whvi.convert import BayesianAttention, bayesianize
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn import MCDropout, MeanFieldLinear, WHVIConv2d, WHVILinear
from whvi.nn.model import bayesian_layers
from whvi_paper.networks import resnet18


class Block(nn.Module):
    """A residual block in plain torch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding="same", padding_mode="reflect")
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2)
        self.grouped = nn.Conv2d(16, 16, 3, padding=1, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.norm(self.first(x)).relu()) + self.shortcut(x)
        return self.grouped(y.relu()).mean((2, 3))


class Waves(nn.Module):
    """Down and up again, with one weight for both ways; sounds and images of them."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv1d(16, 32, 4, stride=2, bias=False), nn.ConvTranspose1d(32, 16, 4, stride=2)
        self.up.weight = self.down.weight
        self.image = nn.ConvTranspose2d(16, 24, (3, 2), (3, 2), groups=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.image(self.up(self.down(x).tanh()).unflatten(-1, (3, -1)))
        return y.flatten(1)


class Tied(nn.Module):
    """A float64 MLP: one module in two places, two layers with one weight, two biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.twice: nn.Module = nn.Linear(32, 32)
        self.again: nn.Module = self.twice
        self.one, self.other = nn.Linear(32, 32), nn.Linear(32, 32)
        self.other.weight = self.one.weight
        nn.init.normal_(self.other.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.again(self.twice(x).tanh()).tanh()
        return self.other(self.one(x).tanh())


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = {
    "resnet-18": (lambda: resnet18("dense"), (2, 3, 8, 8), torch.float32),
    "waves": (Waves, (3, 16, 12), torch.float32),
    "block": (Block, (4, 8, 6, 6), torch.float32),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2),
        (3, 5, 32),
        torch.float32,
    ),
    "tied": (lambda: Tied().double(), (6, 32), torch.float64),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_works_as_before(name: str) -> None:
    """Forward, backward to every parameter, KL, copies and saved states; the given model is not touched."""
    make, shape, dtype = MODELS[name]
    model, x = make(), torch.randn(shape, dtype=dtype)
    before = copy.deepcopy(model.state_dict())
    bayesian, report = bayesianize(model)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    assert not bayesian_layers(model)
    left = [m for m in bayesian.modules() if isinstance(m, nn.Linear | nn.Conv2d | nn.MultiheadAttention)]
    assert len(left) == len(report.left)
    assert report.total_after == sum(p.numel() for p in bayesian.parameters())
    assert report.total_before - report.total_after == report.before - report.after > 0

    y, divergence = bayesian(x), whvi.kl(bayesian)
    assert y.shape == model(x).shape
    assert y.dtype == dtype
    assert divergence > 0
    (y.square().sum() + divergence).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in bayesian.parameters())

    bayesian.eval()
    torch.manual_seed(1)
    expected = bayesian(x)
    again = bayesianize(model.eval()).model
    again.load_state_dict(bayesian.state_dict())
    for twin in (copy.deepcopy(bayesian), again):
        torch.manual_seed(1)
        assert torch.equal(twin(x), expected)
        torch.testing.assert_close(whvi.kl(twin), divergence)


def test_ties_stay() -> None:
    model, _ = bayesianize(Tied())
    assert model.twice is model.again
    assert model.one.g is model.other.g
    assert model.one.scales is not model.other.scales
    assert all(a is b for a, b in zip(model.one.scales, model.other.scales, strict=True))
    assert model.one.bias is not model.other.bias
    with whvi.mean_mode(model):
        assert torch.equal(model.one.weight_at(), model.other.weight_at())
    once = model.one.kl() + model.twice.kl() + model.other.bias.kl(whvi.posterior.GaussianPrior(1.0))
    torch.testing.assert_close(whvi.kl(model), once)


def test_a_layer_tied_to_an_embedding_is_left() -> None:
    model = nn.ModuleDict(
        {"in": nn.Embedding(100, 32), "mid": nn.Linear(32, 32), "out": nn.Linear(32, 100, bias=False)}
    )
    model["out"].weight = model["in"].weight
    bayesian, report = bayesianize(model)
    assert bayesian["out"].weight is bayesian["in"].weight
    assert [row.name for row in report.replaced] == ["mid"]
    assert "Embedding" in report.left[0].note
    assert report.left[0].name in str(report)


def note_of(module: nn.Module, **options: Any) -> str:
    """Why a module is left that stands beside one that is replaced."""
    _, report = bayesianize(nn.ModuleList([nn.Linear(32, 32), module]), **options)  # type: ignore[arg-type]
    assert [row.name for row in report.replaced] == ["0"]
    return report.left[0].note


class OwnForward(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x


def hooked() -> nn.Module:
    layer = nn.Linear(32, 32)
    layer.register_forward_hook(lambda module, arguments, output: output)
    return layer


def frozen() -> nn.Module:
    layer = nn.Linear(32, 32)
    layer.weight.requires_grad_(False)
    return layer


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.RNN(32, 32), "RNN has no"),
        (lambda: nn.LSTMCell(32, 32), "LSTMCell has no"),
        (lambda: nn.Conv3d(32, 32, 3), "Conv3d has no"),
        (lambda: nn.LazyLinear(32), "lazy"),
        (hooked, "hooks"),
        (frozen, "frozen"),
        (lambda: weight_norm(nn.Linear(32, 32)), "parametrized"),
        (lambda: OwnForward(32, 32), "forward of its own"),
        (lambda: nn.MultiheadAttention(32, 4, add_bias_kv=True), "add_bias_kv"),
        (lambda: nn.Linear(8, 64), "8 inputs"),
        (lambda: nn.Linear(64, 1), "would grow from 65 to 258"),
        (lambda: nn.MultiheadAttention(8, 2), "8 inputs"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_cannot_be_replaced_is_left_with_a_note(make: Callable[[], nn.Module], words: str) -> None:
    assert words in note_of(make())


def names(rule: object, **options: Any) -> list[str]:
    model = nn.Sequential(nn.Linear(32, 32), nn.Sequential(nn.Linear(32, 32), nn.Conv2d(8, 8, 3)), nn.Linear(32, 2))
    _, report = bayesianize(model, rule=rule, **options)  # type: ignore[arg-type]
    return [row.name for row in report.replaced]


def test_rules() -> None:
    assert names(None) == ["0", "1.0", "1.1"]  # 32 -> 2 would grow
    assert names(nn.Conv2d) == ["1.1"]
    assert names((nn.Linear, nn.Conv2d)) == ["0", "1.0", "1.1"]
    assert names("1") == ["1.0", "1.1"]
    assert names("*.0") == ["1.0"]
    assert names(["0", "2"]) == ["0", "2"]  # who names it gets it
    assert names(lambda name, module: name == "2") == ["2"]
    assert names(None, skip="0") == ["1.0", "1.1"]
    assert names(None, skip=("1.*",)) == ["0"]
    assert names(None, skip=(nn.Conv2d,)) == ["0", "1.0"]
    assert names(None, min_features=40) == ["1.1"]  # 72 weights enter a filter


def test_a_rule_may_give_the_layer() -> None:
    given = MeanFieldLinear(32, 2)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 2))
    bayesian, _ = bayesianize(model, rule=lambda name, module: given if name == "1" else True)
    assert bayesian[1] is given
    assert isinstance(bayesian[0], WHVILinear)


def test_layers_inside_of_bayesian_ones_are_not_touched() -> None:
    model = nn.Sequential(MCDropout(nn.Linear(32, 32)), nn.Linear(32, 32))
    bayesian, report = bayesianize(model)
    assert isinstance(bayesian[0].layer, nn.Linear)
    assert [row.name for row in report.rows] == ["1"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"rule": "missing"}, ArgumentError, "no module of this model is called 'missing'"),
        ({"skip": ("missing.*",)}, ArgumentError, "missing"),
        ({"rule": 3}, InputTypeError, "rule must be"),
        ({"rule": [3]}, InputTypeError, "rule must be"),
        ({"rule": lambda name, module: "yes"}, InputTypeError, "a bool, a module or None, got str"),
        ({"rule": lambda name, module: False}, ArgumentError, "nothing in this model can be replaced"),
        ({"init": "random"}, ArgumentError, "init must be"),
        ({"draws": "row"}, ArgumentError, "draws must be"),
        ({"relative_std": 0.0}, ArgumentError, "relative_std"),
        ({"posterior": "nothing"}, ArgumentError, "'nothing' is unknown"),
        ({"min_features": 0}, ArgumentError, "min_features"),
    ],
)
def test_mistakes_are_explained(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        bayesianize(nn.Sequential(nn.Linear(32, 32)), **options)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
def test_a_failure_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    parts, state = list(model.modules()), copy.deepcopy(model.state_dict())
    with pytest.raises(ArgumentError, match=r"1: the weight has NaN"):
        bayesianize(model, init="pretrained", inplace=True)
    assert list(model.modules()) == parts
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key]) or key == "1.weight"


def test_the_fit_to_dense_weights_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="trains to a worse fit"):
        _, report = bayesianize(nn.Linear(16, 16), init="pretrained")
    assert report.rows[0].error is not None
    assert bayesianize(nn.Linear(16, 16)).report.rows[0].error is None


def test_in_place() -> None:
    model = Tied()
    bayesian, report = bayesianize(model, inplace=True)
    assert bayesian is model
    assert isinstance(model.twice, WHVILinear)
    assert model.twice is model.again
    assert len(report.replaced) == 3
    with pytest.raises(ArgumentError, match="inplace=False"):
        bayesianize(nn.Linear(32, 32), inplace=True)
    assert isinstance(bayesianize(nn.Linear(32, 32)).model, WHVILinear)


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("init", ["pretrained", "prior"])
def test_dtype_training_flags_and_biases_are_kept(init: str, dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32, bias=False), nn.Conv2d(8, 8, 3)).to(dtype)
    model[0].eval()
    model[0].bias.requires_grad_(False)
    bayesian, _ = bayesianize(model, init=init)
    assert {p.dtype for p in bayesian.parameters()} == {dtype}
    assert [m.training for m in bayesian] == [False, True, True]
    assert not any(m.training for m in bayesian[0].modules())
    assert torch.equal(bayesian[0].bias.mean, model[0].bias)
    assert not bayesian[0].bias.mean.requires_grad
    assert isinstance(bayesian[0].bias, whvi.posterior.Point)  # what is frozen is not random
    assert bayesian[1].bias is None
    assert torch.equal(bayesian[2].bias.mean, model[2].bias)
    assert bayesian[2].bias.mean.requires_grad


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.parametrize("posterior", ["point", "diagonal", "low_rank:4", "full", "planar:3"])
def test_the_mean_weight_has_the_error_of_the_report(posterior: str) -> None:
    """For each posterior; a flow starts as the identity but for a hundredth."""
    dense = nn.Linear(32, 48).double()
    layer, report = bayesianize(dense, init="pretrained", posterior=posterior, scales="diagonal", prior_variance=0.25)
    error = float(((layer.weight_at() - dense.weight).norm() / dense.weight.norm()).detach())
    assert report.rows[0].error == pytest.approx(error, abs=0.02 if posterior == "planar:3" else 1e-9)
    if posterior == "diagonal":
        size = float(layer.g.mean.detach().square().mean().sqrt())
        assert size == pytest.approx(0.5)  # of the prior
        torch.testing.assert_close(layer.g.log_std.exp(), torch.full_like(layer.g.mean, 0.05 * size))


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
def test_a_model_that_is_structured_already_keeps_its_function() -> None:
    """Dense layers with structured weights: the mean of the converted model is the model."""
    parts = [WHVILinear(32, 64, dtype=torch.float64), WHVILinear(64, 48, dtype=torch.float64)]
    dense = whvi.convert.to_dense(nn.Sequential(parts[0], nn.Tanh(), parts[1]))
    bayesian, report = bayesianize(dense, init="pretrained")
    x = torch.randn(10, 32, dtype=torch.float64)
    with whvi.mean_mode(bayesian):
        torch.testing.assert_close(bayesian(x), dense(x), rtol=1e-4, atol=1e-4)
    assert max(row.error or 0.0 for row in report.rows) < 1e-4


def test_attention_too_is_replaced_only_where_that_saves_parameters() -> None:
    layers = nn.ModuleList([nn.MultiheadAttention(16, 2), nn.Linear(64, 64)])
    attention, linear = bayesianize(layers, posterior="planar:10").report.rows
    assert (attention.replaced, linear.replaced) == (False, True)
    assert attention.note == "it would grow from 1,088 to 1,704 parameters"


def test_draws_are_one_function_where_rows_are_not_examples() -> None:
    plain, _ = bayesianize(nn.Sequential(nn.Linear(32, 32), nn.Conv2d(8, 8, 3)))
    assert [plain[0].draws, plain[1].draws] == ["example", "batch"]
    normalised, report = bayesianize(nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
    assert normalised[0].draws == report.conv_draws == "example"
    assert 'Convolutions draw once for each example (draws="example").' in str(report)
    sequence, _ = bayesianize(nn.Sequential(nn.Embedding(5, 32), nn.Linear(32, 32)))
    assert sequence[1].draws == "batch"
    chosen, _ = bayesianize(nn.Sequential(nn.Embedding(5, 32), nn.Linear(32, 32)), draws="example")
    assert chosen[1].draws == "example"


def test_a_custom_convolution_and_attention_are_of_the_right_kind() -> None:
    bayesian, report = bayesianize(nn.ModuleList([nn.Conv2d(8, 8, 3), nn.MultiheadAttention(32, 4)]))
    assert isinstance(bayesian[0], WHVIConv2d)
    assert isinstance(bayesian[1], BayesianAttention)
    assert [row.shape for row in report.rows] == [(8, 8, 3, 3), ()]


def test_the_report_says_what_is_an_example() -> None:
    """Which draws linear layers have; and that time must not come first."""
    for draws, text in (("example", "each row"), ("batch", "each call")):
        report = bayesianize(nn.Linear(32, 32), draws=draws).report
        assert report.draws == draws
        assert text in str(report)
    assert bayesianize(nn.MultiheadAttention(32, 4)).report.draws == "batch"
    assert bayesianize(nn.Conv2d(32, 32, 3)).report.draws == ""
    for batch_first in (False, True):
        left, replaced = (kind(32, 32, batch_first=batch_first) for kind in (nn.RNN, nn.LSTM))
        notes = note_of(left), str(bayesianize(replaced).report)
        assert ["axis 0 of x for examples" in note for note in notes] == [not batch_first] * 2


def test_a_rule_may_answer_with_numpys_truth() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    report = bayesianize(model, rule=lambda name, _: np.str_(name) == np.str_("1")).report  # type: ignore[arg-type,return-value]
    assert [row.name for row in report.replaced] == ["1"]
    report = bayesianize(model, rule=lambda name, _: np.bool_(name == "0")).report  # type: ignore[arg-type,return-value]
    assert [row.name for row in report.replaced] == ["0"]


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(32, 32), lambda: nn.MultiheadAttention(32, 4)], ids=["linear", "attention"]
)
def test_a_model_without_numbers_starts_from_the_prior(make: Callable[[], nn.Module]) -> None:
    with torch.device("meta"):
        model = make()
    with pytest.raises(ArgumentError, match=r"meta device.*omit init"):
        bayesianize(model, init="pretrained")
    bayesian = bayesianize(model).model
    assert all(parameter.is_meta for parameter in bayesian.parameters())


def test_in_place_reaches_layers_in_lists_tuples_and_dicts() -> None:
    class Ordered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
            self._order, self.pair, self.named = [self.a], (1, [self.b]), {"c": (self.c, self.forward)}

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.named["c"][0](self.pair[1][0](self._order[0](x)))
            return y

    model = Ordered()
    order = model._order
    bayesian, _ = bayesianize(model, inplace=True)
    assert bayesian is model
    assert model._order is order
    assert (model._order[0], model.pair[1][0], model.named["c"][0]) == (model.a, model.b, model.c)
    assert all(isinstance(layer, WHVILinear) for layer in (model.a, model.b, model.c))
    assert model.pair[0] == 1


def test_the_sentence_about_replaced_layers_is_about_them() -> None:
    _, report = bayesianize(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), skip=("2",))
    assert "1 layer replaced: 16,640 -> 1,152 parameters (6.9 %). Whole model: 19,210 -> 3,722." in str(report)


def test_a_converted_network_may_view() -> None:
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
            self.head = nn.Linear(16 * 36, 64)

        def forward(self, x: Tensor) -> Tensor:
            h = self.features(x)
            y: Tensor = self.head(h.view(h.size(0), -1))
            return y

    model, report = bayesianize(Viewing())
    x = torch.randn(5, 8, 8, 8)
    assert len(report.replaced) == 2
    assert model(x).shape == (5, 64)
    assert whvi.predict(model, x, 4).mean.shape == (5, 64)


class Conv1D(nn.Module):
    """As in transformers: a linear layer whose weight is (inputs, outputs)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf)), nn.Parameter(torch.randn(nf))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def test_a_linear_layer_of_transformers_is_replaced() -> None:
    """Law: under a fixed draw it is nn.Linear with the weight of that draw, whose bias starts as it was."""
    dense = nn.Sequential(Conv1D(48, 32), nn.Tanh(), Conv1D(32, 48)).double()
    model, report = bayesianize(dense)
    assert [row.name for row in report.replaced] == ["0", "2"]
    assert (model[0].in_features, model[0].out_features) == (32, 48)
    torch.testing.assert_close(model[0].bias.mean, dense[0].bias)
    x = torch.randn(5, 32, dtype=torch.float64)
    with whvi.sampling(model) as draws:
        torch.testing.assert_close(whvi.to_dense(model, draws)(x), model(x))
    dense[2].weight = dense[0].weight
    with pytest.raises(ArgumentError, match="shares a parameter with a module of type Conv1D of another kind"):
        bayesianize(dense)
