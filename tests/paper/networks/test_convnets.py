"""Convolutional networks: every treatment fits into every network, and the numbers of parameters are the paper's."""

import copy
from itertools import pairwise
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from whvi.errors import WhviError
from whvi.inference import SVI
from whvi.likelihoods import Categorical
from whvi.nn import WHVIConv2d, WHVILinear, kl, sampling
from whvi.nn.mean_field import MeanField
from whvi.nn.model import bayesian_layers
from whvi.testing import assert_close
from whvi_paper.networks import MODELS, TREATMENTS, Treatment, alexnet, convnet, count_parameters, simple_cnn, treatment
from whvi_paper.networks.convnets import ResidualBlock
from whvi_paper.networks.treatments import FILTERS, LINEAR, dense_filters, dense_linear, low_rank_filters


def images(count: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, 3, 32, 32, dtype=dtype)


def under_one_seed(model: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    with torch.no_grad():
        output: Tensor = model(x)
    return output


@pytest.mark.parametrize("of", TREATMENTS)
def test_a_treatment_trains(of: str) -> None:
    """Shapes; the gradient of the bound reaches every parameter; the KL is the sum of that of the layers."""
    model = simple_cnn(of)
    y = model(images())
    assert y.shape == (3, 10)
    divergence = kl(model)
    (divergence + functional.cross_entropy(y, torch.arange(3), reduction="sum")).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    layers = bayesian_layers(model)
    assert len(layers) == (0 if of == "dense" else 3)
    assert divergence.isfinite()
    if of != "nf-whvi":  # which estimates it
        assert_close(divergence, sum((layer.kl() for layer in layers), torch.zeros(())), 1e-6)


@pytest.mark.parametrize("of", ["whvi", "whvi-filters", "mcd", "low-rank-mcd"])
def test_a_step_in_bf16_is_near_one_in_full_precision(of: str) -> None:
    """With the same draws the likelihood and its gradient differ by rounding; the KL is in full precision anyway."""
    model, x, y = simple_cnn(of), images(4), torch.arange(4)
    found, gradients = [], []
    for precision in ("full", "bf16"):
        twin = copy.deepcopy(model)
        torch.manual_seed(1)
        run = SVI(1e-3, precision=precision).init(twin, Categorical(10), 4)
        found.append(run.update(x, y, 0))
        gradients.append({name: parameter.grad for name, parameter in twin.named_parameters()})
    (full, low), (full_gradients, low_gradients) = found, gradients
    assert low.log_likelihood != full.log_likelihood  # or it was not in bf16
    assert float(low.log_likelihood) == pytest.approx(float(full.log_likelihood), rel=0.02)
    assert torch.equal(low.kl, full.kl)
    for name, gradient in low_gradients.items():
        assert gradient is not None, name
        assert gradient.dtype == torch.float32, name
        assert gradient.isfinite().all(), name
    whole, rounded = (torch.cat([part.flatten() for part in one.values()]) for one in (full_gradients, low_gradients))
    assert functional.cosine_similarity(whole, rounded, dim=0) > 0.99


@pytest.mark.parametrize("of", TREATMENTS)
def test_copies_and_saved_states_are_the_same_function(of: str) -> None:
    model, x = simple_cnn(of), images()
    for module in model.modules():  # so that two fresh models are never equal by chance
        if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
            nn.init.normal_(module.bias)
    expected = under_one_seed(model, x)
    assert torch.equal(under_one_seed(copy.deepcopy(model), x), expected)
    other = simple_cnn(of)
    assert not torch.equal(under_one_seed(other, x), expected)
    other.load_state_dict(model.state_dict())
    assert torch.equal(under_one_seed(other, x), expected)


@pytest.mark.parametrize("of", [name for name in TREATMENTS if name != "dense"])
def test_under_a_fixed_draw_it_is_the_dense_network_with_the_drawn_weights(of: str) -> None:
    model, dense, x = simple_cnn(of).double(), simple_cnn("dense").double(), images(dtype=torch.float64)
    with sampling(model) as draws, torch.no_grad():
        actual = model(x)
        plain = [module for module in dense.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
        for layer, twin in zip(bayesian_layers(model), plain, strict=True):
            twin.weight.copy_(layer.weight_at(draws[layer]))
            assert twin.bias is not None
            bias = layer.bias_value(draws[layer])
            twin.bias.copy_(torch.zeros(()) if bias is None else bias)
        assert_close(actual, dense(x), 1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_a_network_runs_and_has_the_parameters_that_are_counted(name: str) -> None:
    model = convnet(name, "nf-whvi", classes=7)
    y = model(images(2))
    assert y.shape == (2, 7)
    (y.square().sum() + kl(model)).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    counted = count_parameters(name, "nf-whvi", classes=7)
    assert counted.total == sum(p.numel() for p in model.parameters())
    assert counted.other == sum(
        p.numel() for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()
    )


@pytest.mark.parametrize(("of", "parameters"), [("dense", 23272266), ("whvi", 2310996), ("nf-whvi", 2366301)])
def test_alexnet_has_the_papers_parameters(of: str, parameters: int) -> None:
    """23.3M, 9.9 % and 10.2 %."""
    found = count_parameters("alexnet", of)
    assert found.total == parameters
    assert found.linear + found.filters == parameters  # its normalisation has none


def shapes(name: str) -> list[tuple[int, ...]]:
    return [layer.shape for layer in count_parameters(name, "dense").layers]


def chain(*channels: int) -> list[tuple[int, ...]]:
    return [(o, i, 3, 3) for i, o in pairwise(channels)]


def test_layers_have_the_dimensions_of_the_papers_tables() -> None:
    """But for the first linear map of AlexNet, which the table prints as 4096 x 4096: 23.3M leaves room for 1024."""
    assert shapes("alexnet") == [*chain(3, 64, 192, 384, 256, 256), (4096, 1024), (4096, 4096), (10, 4096)]
    wide = (128, 128, 128, 256, 256, 256, 256, 256, 256)
    assert shapes("vgg16") == [*chain(3, 32, 32, 64, 64, *wide), (10, 256)]
    stages: list[tuple[int, ...]] = [*chain(3, 64, 64, 64, 64, 64)]
    for i, o in ((64, 128), (128, 256), (256, 512)):
        stages += [*chain(i, o, o), (o, i, 1, 1), *chain(o, o, o)]
    assert shapes("resnet18") == [*stages, (10, 512)]
    assert shapes("simple-cnn") == [*chain(3, 64, 64), (10, 4096)]


def test_dense_counts_are_those_of_the_dimensions() -> None:
    for name in MODELS:
        biases = name != "resnet18"  # whose normalisation makes those of convolutions idle
        for layer in count_parameters(name, "dense").layers:
            weights = torch.Size(layer.shape).numel()
            assert layer.parameters == weights + (layer.shape[0] if biases or layer.kind == "linear" else 0)


def test_poolings_and_strides_leave_the_planes_of_the_tables() -> None:
    """AlexNet 16, 8, 8, ... after a stride of 2; VGG16 halves five times; ResNet-18 ends in planes of 4 x 4."""
    for name, sizes in {
        "alexnet": [16, 8, 4, 4, 4],
        "vgg16": [32, 32, 16, 16, 8, 8, 8, 4, 4, 4, 2, 2, 2],
        "resnet18": [32] * 5 + [16] * 5 + [8] * 5 + [4] * 5,
    }.items():
        seen: list[int] = []

        def filters(i: int, o: int, k: int, seen: list[int] = seen, **options: Any) -> nn.Module:
            layer = nn.Conv2d(i, o, k, **options)  # type: ignore[arg-type]
            layer.register_forward_hook(lambda *call: seen.append(call[2].shape[-1]))
            return layer

        with torch.device("meta"):
            convnet(name, Treatment(nn.Linear, filters))(torch.empty(2, 3, 32, 32))
        assert seen == sizes


@pytest.mark.parametrize("stride", [1, 2])
def test_a_residual_block_adds_what_goes_past_it(stride: int) -> None:
    outputs = 4 * stride
    block = ResidualBlock(dense_filters, 4, outputs, nn.BatchNorm2d, stride).double()
    x = torch.randn(3, 4, 6, 6, dtype=torch.float64)
    convolutions = [module for module in block.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == (2 if stride == 1 else 3)

    def normal(y: Tensor) -> Tensor:
        return (y - y.mean((0, 2, 3), True)) / (y.var((0, 2, 3), correction=0, keepdim=True) + 1e-5).sqrt()

    first, second = (convolution.weight for convolution in convolutions[:2])
    body = normal(functional.conv2d(normal(functional.conv2d(x, first, None, stride, 1)).relu(), second, None, 1, 1))
    past = x if stride == 1 else normal(functional.conv2d(x, convolutions[2].weight, None, stride))
    assert_close(block(x), (past + body).relu(), 1e-12)


def test_filters_before_normalisation_are_drawn_for_each_example() -> None:
    """Of one draw for a batch, normalisation takes shift and scale away in training, but not in evaluation."""
    draws = {name: getattr(make(3, 4, 3), "draws", None) for name, make in FILTERS.items()}
    assert draws.pop("dense") is None
    assert set(draws.values()) == {"example"}
    assert FILTERS["nng"](3, 4, 3).bias_value() is None


def test_a_treatment_of_ones_own_fits_in() -> None:
    """What it makes is what is in the network, and is counted."""
    own = Treatment(lambda i, o: nn.Linear(i, o, bias=False), lambda i, o, k, **more: WHVIConv2d(i, o, k, **more))
    model = alexnet(own, classes=3, normalisation=None)
    assert model(images(2)).shape == (2, 3)
    assert [layer.draws for layer in bayesian_layers(model)] == ["example"] * 5
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model)
    found = count_parameters("alexnet", own, classes=3)
    assert found.linear == 1024 * 4096 + 4096 * 4096 + 4096 * 3
    assert found.total == sum(p.numel() for p in model.parameters())


def test_networks_start_from_weights_of_he() -> None:
    """var(W) = 2 / inputs at the start, of every treatment, so that signals keep their size."""
    for makers, sizes in ((LINEAR, (64, 128)), (FILTERS, (7, 128, 3))):
        for name, make in makers.items():
            found = []
            for _ in range(20):  # a matrix of few random numbers may be off by a factor of two
                layer = make(*sizes)
                found.append((layer.weight if isinstance(layer, nn.Linear | nn.Conv2d) else layer.weight_at()).detach())
            fan_in = found[0][0].numel()
            assert float(torch.stack(found).var()) == pytest.approx(2 / fan_in, rel=0.3), name
    assert not dense_linear(3, 4).bias.any()


@pytest.mark.parametrize("bias", [True, False])
def test_low_rank_filters_have_about_as_many_parameters_as_those_under_whvi(bias: bool) -> None:
    """As many as a rank allows: one more would be too many."""
    layer, wanted = low_rank_filters(64, 64, 3, bias=bias), WHVIConv2d(64, 64, 3, bias=bias, pad_to="power_of_two")
    size, most = (sum(p.numel() for p in module.parameters()) for module in (layer, wanted))
    assert (layer.bias_value(None) is not None) == bias
    assert size <= most < size + 64 * 9 + 64


def test_names_of_treatments() -> None:
    assert treatment("nf-whvi+whvi-own-g") == Treatment(LINEAR["nf-whvi"], FILTERS["whvi-own-g"])
    own = Treatment(WHVILinear, WHVIConv2d)
    assert treatment(own) is own
    for name, (linear, filters) in TREATMENTS.items():
        assert treatment(name) == treatment(f"{linear}+{filters}")


@pytest.mark.parametrize("name", ["", "bayes", "whvi+", "+mcd", "whvi+bayes", "bayes+mcd", "whvi+mcd+mcd", "WHVI"])
def test_an_unknown_treatment_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(WhviError, match=r"is unknown; use one of: dense, .*; or LINEAR\+FILTERS") as caught:
        treatment(name)
    assert repr(name) in str(caught.value)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(WhviError, match="model 'lenet' is unknown; use one of: alexnet, vgg16, resnet18, simple-cnn"):
        convnet("lenet")
    with pytest.raises(WhviError, match=r"treatment must be a name or a whvi_paper\.networks\.Treatment, got tuple"):
        treatment((WHVILinear, WHVIConv2d))  # type: ignore[arg-type]


@pytest.mark.parametrize("model", MODELS)
def test_mean_field_has_a_prior_that_fits_its_width(model: str) -> None:
    with torch.device("meta"):
        layers = [layer for layer in convnet(model, "mfg").modules() if isinstance(layer, MeanField)]
    assert layers
    for layer in layers:
        assert layer.prior.variance == pytest.approx(1.0 / prod(layer.weight_shape[1:]))
