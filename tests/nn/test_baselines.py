"""What every baseline layer owes to the contract of a Bayesian layer."""

import copy
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional

import whvi.nn as wnn
from whvi.nn import BayesianLayer, Draw
from whvi.testing.compare import assert_close, assert_same_gradients, perturb

F64: dict[str, Any] = {"dtype": torch.float64}
CONV: dict[str, Any] = {"stride": (1, 2), "padding": 2, "dilation": (2, 1)}


class Case(NamedTuple):
    make: Callable[[], BayesianLayer]
    plain: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    """The layer without its law: x (B, ...), weight, bias -> y."""
    event: tuple[int, ...]
    """Shape of an example."""
    exact_examples: bool = True
    """A fixed draw for each example is also one of weights."""


def conv(padding_mode: str = "constant", groups: int = 1) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    def apply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padded = functional.pad(x, (2, 2, 2, 2), padding_mode)
        return functional.conv2d(padded, weight, bias, (1, 2), 0, (2, 1), groups)

    return apply


PLANE = (4, 5, 6)
CASES = {
    "mean_field": Case(lambda: wnn.MeanFieldLinear(5, 3, **F64), functional.linear, (5,), False),
    "mean_field_no_bias": Case(lambda: wnn.MeanFieldLinear(5, 3, False, **F64), functional.linear, (5,), False),
    "mean_field_conv": Case(
        lambda: wnn.MeanFieldConv2d(4, 6, (2, 3), groups=2, padding_mode="reflect", **CONV, **F64),
        conv("reflect", 2),
        PLANE,
        False,
    ),
    "dropout": Case(lambda: wnn.MCDropout(nn.Linear(5, 3, **F64), 0.4), functional.linear, (5,)),
    "dropout_conv": Case(
        lambda: wnn.MCDropout(nn.Conv2d(4, 6, (2, 3), groups=2, padding_mode="circular", **CONV, **F64), 0.4),
        conv("circular", 2),
        PLANE,
    ),
    "low_rank": Case(lambda: wnn.LowRankMCDropoutConv2d(4, 6, (2, 3), 3, p=0.4, **CONV, **F64), conv(), PLANE),
    "tensor": Case(lambda: wnn.TensorFactorisedLinear(5, 3, rank=3, cores=5, **F64), functional.linear, (5,)),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    chosen = request.param
    assert isinstance(chosen, Case)
    return chosen


@pytest.fixture
def layer(case: Case) -> BayesianLayer:
    made = case.make()
    perturb(made)
    return made


def inputs(case: Case, *lead: int) -> Tensor:
    return torch.randn(*lead, *case.event, dtype=torch.float64, requires_grad=True)


def part(value: Tensor | None, index: int) -> Tensor | None:
    return None if value is None else value[index]


def by_weights(case: Case, layer: BayesianLayer, draw: Draw | None, x: Tensor) -> Tensor:
    """x of shape (S, B, ...) for S draws, or (B, ...)."""
    weight, bias = layer.weight(draw), layer.bias_value(draw)
    if draw is None or not draw.shape:
        return case.plain(x, weight, bias)
    return torch.stack([case.plain(x[s], weight[s], part(bias, s)) for s in range(draw.shape[0])])


def test_one_draw_is_the_plain_layer_with_that_weight(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 4)
    with wnn.sampling(layer) as draws:
        y = layer(x)
    expected = by_weights(case, layer, draws[layer], x)
    assert_close(y, expected, 1e-12)
    assert_same_gradients(y, expected, [x, *layer.parameters()], 1e-10)


def test_several_draws_for_the_parts_of_a_batch(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 6)
    with wnn.sampling(layer, 3) as draws:
        y = layer(x)
    expected = by_weights(case, layer, draws[layer], x.unflatten(0, (3, 2))).flatten(0, 1)
    assert_close(y, expected, 1e-12)
    assert_same_gradients(y, expected, [x, *layer.parameters()], 1e-10)
    assert not torch.allclose(layer.weight(draws[layer])[0], layer.weight(draws[layer])[1])


def test_a_draw_for_each_example(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 4)
    with wnn.sampling(layer, "example") as draws:
        y = layer(x)
    draw = draws[layer]
    assert draw is not None
    if case.exact_examples:
        expected = by_weights(case, layer, draw._replace(shape=(4,)), x.unsqueeze(1)).squeeze(1)
        assert_close(y, expected, 1e-12)
        assert_same_gradients(y, expected, [x, *layer.parameters()], 1e-10)
    same = layer(x[:1].expand(8, *case.event))
    assert (same != same[:1]).flatten(1).any()


def test_mean_and_batch_draws(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 4)
    with wnn.mean_mode(layer):
        assert_close(layer(x), by_weights(case, layer, None, x), 1e-12)
    layer.draws = "batch"
    same = layer(x[:1].expand(8, *case.event))
    assert_close(same, same[:1].expand_as(same), 1e-12)


@pytest.mark.parametrize("lead", [(), (1,), (2, 3), (2, 1, 3), (0,), (2, 0)])
@pytest.mark.parametrize("draws", [1, 2, "example", None])
def test_leading_axes(case: Case, layer: BayesianLayer, lead: tuple[int, ...], draws: int | str | None) -> None:
    if draws == 2 and (not lead or lead[0] % 2):
        return
    x, rows = inputs(case, *lead), inputs(case, 1)
    with wnn.mean_mode(layer) if draws is None else wnn.sampling(layer, draws):
        y = layer(x)
        flat = layer(x.flatten(0, len(lead) - 1)) if len(lead) > 1 and draws != "example" else None
    with wnn.mean_mode(layer):
        assert y.shape == (*lead, *layer(rows).shape[1:])
    if flat is not None:
        assert_close(y.flatten(0, len(lead) - 1), flat, 1e-12)


def test_copies(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 4)
    layer(x)
    fresh = case.make()
    fresh.load_state_dict(layer.state_dict())
    draw = layer.draw()
    for other in (fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other.weight(draw), layer.weight(draw))
        with wnn.mean_mode(layer), wnn.mean_mode(other):
            assert torch.equal(other(x), layer(x))
        assert other.kl() == layer.kl()


def test_kl(case: Case, layer: BayesianLayer) -> None:
    value = layer.kl()
    assert value.shape == ()
    assert value > 0
    assert_close(wnn.kl(nn.Sequential(layer, layer)), value, 1e-12)
    for gradient in torch.autograd.grad(value, list(layer.parameters()), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


@pytest.mark.parametrize("draws", ["example", "batch"])
def test_compile(case: Case, layer: BayesianLayer, draws: str) -> None:
    torch.compiler.reset()
    layer.draws = draws
    x = inputs(case, 4)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    expected = layer(x)
    torch.manual_seed(3)
    y = compiled(x)
    assert_close(y, expected, 1e-12)
    assert_same_gradients(y, expected, [x, *layer.parameters()], 1e-10)


def test_export(case: Case, layer: BayesianLayer) -> None:
    x = inputs(case, 4).detach()
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},)).module()
    longer = inputs(case, 7).detach()
    torch.manual_seed(3)
    expected = layer(longer)
    torch.manual_seed(3)
    assert_close(program(longer), expected, 1e-12)


@pytest.mark.parametrize("draws", ["example", "batch"])
def test_stacked_models(case: Case, draws: str) -> None:
    layers = [case.make() for _ in range(3)]
    for layer in layers:
        layer.draws = draws
    parameters, buffers = stack_module_state(layers)
    x = inputs(case, 4).detach()

    def call(p: dict[str, Tensor], b: dict[str, Tensor]) -> Tensor:
        return functional_call(layers[0], (p, b), (x,))

    y = torch.vmap(call, randomness="different")(parameters, buffers)
    assert y.isfinite().all()
    equal = {name: value[:1].expand_as(value) for name, value in parameters.items()}
    one, two, _ = torch.vmap(call, randomness="different")(equal, buffers)
    assert not torch.allclose(one, two)
    with wnn.mean_mode(layers[0]):
        means = torch.vmap(call, randomness="different")(parameters, buffers)
    for layer, mean in zip(layers, means, strict=True):
        with wnn.mean_mode(layer):
            assert_close(mean, layer(x), 1e-12)
    loss = lambda p, b: call(p, b).square().sum()  # noqa: E731
    for gradient in torch.vmap(torch.func.grad(loss), randomness="different")(parameters, buffers).values():
        assert gradient.isfinite().all()


def test_nan_passes_through(case: Case, layer: BayesianLayer) -> None:
    x = torch.full((2, *case.event), torch.nan, dtype=torch.float64)
    for draws in (1, 2, "example"):
        with wnn.sampling(layer, draws):
            assert layer(x).isnan().any()


@pytest.mark.parametrize("draws", [1, 2, "example"])
def test_half_precision(case: Case, layer: BayesianLayer, draws: int | str) -> None:
    layer.float()
    x = torch.randn(4, *case.event)
    with wnn.sampling(layer, draws):
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
            assert y.dtype == torch.bfloat16
        assert_close(y.float(), layer(x), 0.05)
        layer.bfloat16()
        assert layer(x.bfloat16()).dtype == torch.bfloat16
        assert layer(x).dtype == torch.float32
