"""Layers that share g, or that are parts of one matrix: plain networks at a draw, and one KL for what they share."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import ShapeError, UnsupportedError
from whvi.nn.structured import StructuredLayer
from whvi.posterior import GaussianPrior
from whvi_paper.networks import network
from whvi_paper.networks.joined import PartLinear, covariance, one_matrix, shared_g

ROWS, DRAWS, SIZES = 3, 4, (5, 8, 8)
every = pytest.mark.parametrize("make", [shared_g, one_matrix])


def hidden(model: nn.Module) -> list[StructuredLayer]:
    return [layer for layer in model.modules() if isinstance(layer, StructuredLayer)]


def evaluated(layers: list[StructuredLayer], weights: list[Tensor], biases: list[Tensor], x: Tensor) -> Tensor:
    """A plain network with these weights: (S, N, inputs) -> (S, N, outputs)."""
    for weight, bias in zip(weights, biases, strict=True):
        x = (x @ weight.mT + bias.unsqueeze(-2)).relu()
    return x


@pytest.mark.parametrize("method", ["whvi-shared-g", "whvi-one-matrix"])
def test_the_network_is_the_plain_one_in_value_and_gradient(method: str) -> None:
    model = network(method, SIZES[0], 2, 2, SIZES[1]).double()
    x = torch.randn(ROWS, SIZES[0], dtype=torch.float64)
    slope = torch.randn(DRAWS * ROWS, 2, dtype=torch.float64)
    parameters = list(model.parameters())
    with whvi.sampling(model, DRAWS) as draws:
        fast = model(x.repeat(DRAWS, 1))
        layers = [layer for layer in model if not isinstance(layer, nn.ReLU)]
        parts = [(layer.weight_at(draws[layer]), layer.bias_value(draws[layer])) for layer in layers]
    *inner, (weight, bias) = parts
    h = evaluated(hidden(model), [w for w, _ in inner], [b for _, b in inner], x.expand(DRAWS, *x.shape))
    plain = (h @ weight.mT + bias.unsqueeze(-2)).flatten(0, 1)
    torch.testing.assert_close(fast, plain)
    for one, other in zip(*(torch.autograd.grad(y, parameters, slope) for y in (fast, plain)), strict=True):
        torch.testing.assert_close(one, other)


def test_parts_are_cut_from_one_dense_matrix() -> None:
    first, second = one_matrix(SIZES)
    assert isinstance(first, PartLinear)
    assert isinstance(second, PartLinear)
    whole = first.dense(None)
    torch.testing.assert_close(whole, second.dense(None))
    torch.testing.assert_close(first.weight_at(), whole[:8, :5])
    torch.testing.assert_close(second.weight_at(), whole[8:16, 5:13])
    with pytest.raises(ShapeError, match="in_features = 5"):
        first(torch.randn(2, 8))
    with pytest.raises(UnsupportedError, match="weight_at"):
        first.weight_distribution()


@every
def test_what_is_shared_has_one_kl(make: type) -> None:
    layers = make(SIZES)
    model = nn.Sequential(*layers)
    prior = GaussianPrior(1.0)
    wanted = layers[0].g.kl(prior) + sum(layer.bias.kl(prior) for layer in layers)
    torch.testing.assert_close(whvi.kl(model), wanted)
    assert layers[0].g is layers[1].g


@every
def test_each_layer_starts_with_the_variance_of_its_own_inputs(make: type) -> None:
    torch.manual_seed(0)
    found = torch.stack([torch.stack([w.weight_at().square().mean() for w in make((2, 16, 16))]) for _ in range(200)])
    torch.testing.assert_close(found.mean(0), torch.tensor([2.0 / 2, 2.0 / 16]), rtol=0.25, atol=0.0)


@every
def test_covariances_across_layers_are_those_of_samples(make: type) -> None:
    torch.manual_seed(0)
    layers = make((2, 4, 4))
    with torch.no_grad():
        layers[0].g.log_std.normal_()
    model = whvi.nn.together.in_one_pass(nn.Sequential(*layers)).double()
    with whvi.sampling(model, 20_000) as draws:
        drawn = torch.cat([layer.weight_at(draws[layer]).flatten(1) for layer in layers], dim=1)
    exact = covariance(layers, [torch.arange(layer.weight_at().numel()) for layer in layers])
    std = exact.diagonal().sqrt()
    torch.testing.assert_close(drawn.T.cov() / torch.outer(std, std), exact / torch.outer(std, std), atol=0.05, rtol=0)
    assert exact[:8, 8:].abs().max() > 0.1 * std.min() ** 2


def test_layers_with_a_g_of_their_own_are_independent() -> None:
    layers = hidden(network("whvi-embed", 2, 1, 2, 4))
    found = covariance(layers, [torch.arange(8), torch.arange(16)])
    assert not found[:8, 8:].any()
    for layer, block in zip(layers, (found[:8, :8], found[8:, 8:]), strict=True):
        exact = layer.weight_distribution().covariance  # of vec(W) column after column
        rows, columns = layer.weight_at().shape
        order = torch.arange(rows * columns).view(columns, rows).T.flatten()
        torch.testing.assert_close(block, exact[order][:, order])


@pytest.mark.parametrize(("method", "saved"), [("whvi-shared-g", 16), ("whvi-one-matrix", None)])
def test_sharing_saves_the_parameters_of_one_g(method: str, saved: int | None) -> None:
    def count(name: str) -> int:
        return sum(p.numel() for p in network(name, 5, 1, 2, 8).parameters())

    size = 16
    sums = {"whvi-embed": 2 * 4 * 8, "whvi-shared-g": 2 * 4 * 8 - 2 * 8, "whvi-one-matrix": 4 * size}
    rest = sum(2 * outputs for _, outputs in pairwise((5, 8, 8))) + 2 * 8 + 2
    assert count(method) == sums[method] + rest
    assert saved is None or count("whvi-embed") - count(method) == saved
