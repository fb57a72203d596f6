"""What is asked of a whole model: an honest KL, draws that stay where they were fixed, the mean."""

import threading
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.nn import MCDropout, MeanFieldLinear, WHVIConv2d, WHVILinear
from whvi_paper.baselines import TensorFactorisedLinear


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    layers = [WHVILinear(3, 8, posterior="full"), nn.Tanh(), WHVILinear(8, 8), nn.Tanh(), MeanFieldLinear(8, 2)]
    return nn.Sequential(*layers).double()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 3, dtype=torch.float64)


def test_kl_is_the_sum_over_everything_random(model: nn.Sequential) -> None:
    expected = torch.zeros((), dtype=torch.float64)
    for vector in (model[0].g, model[0].bias, model[2].g, model[2].bias, model[4].bias):
        covariance = torch.distributions.MultivariateNormal(
            vector.mean, scale_tril=vector.covariance_root()
        ).covariance_matrix
        q = torch.distributions.MultivariateNormal(vector.mean, covariance)
        p = torch.distributions.MultivariateNormal(torch.zeros_like(vector.mean), torch.eye(len(vector.mean)).double())
        expected = expected + torch.distributions.kl_divergence(q, p)
    expected = expected + model[4].kl_terms()[next(k for k in model[4].kl_terms() if k is not model[4].bias)]
    torch.testing.assert_close(whvi.kl(model), expected)
    torch.testing.assert_close(whvi.kl(model), sum(layer.kl() for layer in model if hasattr(layer, "kl")))


def test_kl_of_a_plain_model_is_zero() -> None:
    assert whvi.kl(nn.Sequential(nn.Linear(3, 3), nn.ReLU())) == 0
    assert whvi.kl(WHVILinear(3, 3, posterior="point", bias=False)) == 0


def test_what_is_shared_counts_once() -> None:
    layer, other = WHVILinear(4, 4), WHVILinear(4, 4)
    assert whvi.kl(nn.ModuleList([layer, nn.Sequential(layer, nn.ReLU())])) == layer.kl()
    other.g = layer.g
    torch.testing.assert_close(
        whvi.kl(nn.ModuleList([layer, other])), layer.kl() + other.bias.kl(whvi.posterior.GaussianPrior())
    )
    plain = nn.Linear(4, 4)
    torch.testing.assert_close(
        whvi.kl(nn.ModuleList([MCDropout(plain, 0.1), MCDropout(plain, 0.1)])), MCDropout(plain, 0.1).kl()
    )


def test_one_function_for_all_inputs(model: nn.Module, x: Tensor) -> None:
    with whvi.sampling(model):
        y = model(x)
        torch.testing.assert_close(torch.cat([model(row) for row in x.split(1)]), y)
        torch.testing.assert_close(model(x), y)
    assert not torch.allclose(model(x), y)


def test_many_functions_in_one_pass(model: nn.Sequential, x: Tensor) -> None:
    with whvi.sampling(model, 4) as draws:
        many = model(x.repeat(4, 1)).reshape(4, 5, 2)
    for s in range(4):
        h = x
        for layer in model:
            drawn = draws.get(layer)
            h = layer(h) if drawn is None else h @ layer.weight_at(drawn)[s].mT + layer.bias_value(drawn)[s]
        torch.testing.assert_close(many[s], h)
    with whvi.sampling(model, draws):
        torch.testing.assert_close(model(x.repeat(4, 1)).reshape(4, 5, 2), many)
    with whvi.sampling(model, 4), pytest.raises(whvi.WhviError, match="first axis must be 4 equal parts"):
        model(x)


def test_a_draw_for_each_row_that_repeats(model: nn.Module, x: Tensor) -> None:
    with whvi.sampling(model, "example"):
        y = model(x)
        torch.testing.assert_close(model(x), y)
    same = x[:1].expand(4, 3)
    assert len(model(same)[:, 0].unique()) == 4


def test_generators_decide(model: nn.Module, x: Tensor) -> None:
    outputs = []
    for seed in (1, 1, 2):
        with whvi.sampling(model, generator=torch.Generator().manual_seed(seed)):
            outputs.append(model(x))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    torch.manual_seed(5)
    first = model(x)
    torch.manual_seed(5)
    assert torch.equal(first, model(x))


def test_blocks_nest_and_end(model: nn.Sequential, x: Tensor) -> None:
    with whvi.mean_mode(model):
        mean = model(x)
        with whvi.sampling(model[0]):
            inner = model(x)
        assert not torch.allclose(inner, mean)
        assert torch.equal(model(x), mean)
    with pytest.raises(RuntimeError, match="on purpose"), whvi.mean_mode(model):
        raise RuntimeError("on purpose")
    assert not torch.equal(model(x), model(x))


def test_threads_do_not_see_each_other(model: nn.Module, x: Tensor) -> None:
    def function(seed: int) -> Tensor:
        with whvi.sampling(model, generator=torch.Generator().manual_seed(seed)):
            return torch.stack([model(x) for _ in range(20)])

    serial = [function(seed) for seed in range(8)]
    found: dict[int, Tensor] = {}

    def work(seed: int) -> None:
        found[seed] = function(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(8):
        assert torch.equal(found[seed], serial[seed])


def test_draws_of_another_model_are_refused(model: nn.Module) -> None:
    with whvi.sampling(model) as draws:
        pass
    with pytest.raises(whvi.WhviError, match="draws lack 3 of the 3 Bayesian layers"):
        whvi.sampling(deepcopy(model), draws)
    with pytest.raises(whvi.WhviError, match="draws must be a positive int"):
        whvi.sampling(model, 0)
    with pytest.raises(whvi.WhviError, match=r"must be a torch\.nn\.Module, got Tensor"):
        whvi.kl(torch.zeros(3))  # type: ignore[arg-type]


def test_compiled_models_follow_fixed_draws(model: nn.Module, x: Tensor) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert compiled(x).shape == (5, 2)
    for _ in range(2):
        with whvi.sampling(model):
            torch.testing.assert_close(compiled(x), model(x))
    with whvi.mean_mode(model):
        torch.testing.assert_close(compiled(x), model(x))
    assert not torch.equal(compiled(x), compiled(x))


@pytest.mark.parametrize("options", [{}, {"layout": "embed"}, {"bias": "point"}, {"posterior": "full"}], ids=str)
def test_a_layer_used_twice_has_one_gradient(options: dict[str, Any], x: Tensor) -> None:
    """Also where the gradient may be differentiated: there an input of the pass depends on its other inputs."""
    layer = WHVILinear(3, 3, dtype=torch.float64, **options)

    def gradients(create_graph: bool) -> tuple[Tensor, ...]:
        torch.manual_seed(1)
        leaves = list(layer.parameters())
        return torch.autograd.grad(layer(layer(x)).square().sum(), leaves, create_graph=create_graph)

    for a, b in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(a, b)


def test_tied_parameters_have_one_gradient(x: Tensor) -> None:
    layer = WHVILinear(3, 3, dtype=torch.float64)
    root = torch.randn(4, dtype=torch.float64, requires_grad=True)

    def gradient(create_graph: bool) -> Tensor:
        torch.manual_seed(1)
        y = torch.func.functional_call(layer, {"g.mean": root, "scales.0.mean": root.exp()}, x)
        return torch.autograd.grad(y.square().sum(), root, create_graph=create_graph)[0]

    torch.testing.assert_close(gradient(False), gradient(True))


def test_layers_that_share_a_posterior_must_agree_on_its_prior() -> None:
    one, other, third = WHVILinear(4, 4), WHVILinear(4, 4, prior_variance=2.0), WHVILinear(4, 4)
    other.g = third.g = one.g
    assert whvi.kl(nn.ModuleList([one, third])).isfinite()
    with pytest.raises(whvi.WhviError, match="share a DiagonalGaussian but not its prior"):
        whvi.kl(nn.ModuleList([one, other]))


def test_draws_of_a_strange_shape_are_refused(x: Tensor) -> None:
    layer = WHVILinear(3, 3, dtype=torch.float64)
    with whvi.sampling(layer, {layer: layer.draw((2, 3))}), pytest.raises(whvi.WhviError, match=r"\(\) or \(S,\)"):
        layer(x)
    with pytest.raises(whvi.WhviError, match="shape must be a sequence of ints, got 5"):
        layer.draw(5)  # type: ignore[arg-type]
    with pytest.raises(whvi.WhviError, match="draws must map layers"):
        whvi.sampling(layer, {layer: 5})  # type: ignore[dict-item]


def test_shapes_without_numbers() -> None:
    layers = [WHVILinear(5, 7, device="meta"), MeanFieldLinear(7, 2, device="meta")]
    assert nn.Sequential(*layers)(torch.empty(3, 5, device="meta")).shape == (3, 2)


@pytest.mark.parametrize("make", [MeanFieldLinear, TensorFactorisedLinear, WHVILinear])
def test_layers_of_all_kinds_that_share_a_posterior_share_its_draw(make: type[MeanFieldLinear]) -> None:
    one, other = make(8, 8), make(8, 8)
    for name, part in one.named_children():
        setattr(other, name, part)
    network = nn.Sequential(one, other)
    with whvi.sampling(network) as draws:
        assert torch.equal(one.weight_at(draws[one]), other.weight_at(draws[other]))
        assert torch.equal(one.bias_value(draws[one]), other.bias_value(draws[other]))
    assert torch.equal(whvi.kl(network), one.kl())


def test_numbers_of_numpy_are_numbers() -> None:
    eight, x = np.int64(8), torch.ones(2, 8)
    layer = WHVILinear(eight, eight)
    assert torch.equal(
        whvi.predict(layer, x, np.int64(3), seed=np.int64(5)).mean, whvi.predict(layer, x, 3, seed=5).mean
    )
    with whvi.sampling(layer, np.int64(2)):
        assert layer(torch.ones(4, 8)).shape == (4, 8)
    assert MCDropout(nn.Linear(2, 2), np.float32(0.25)).p == 0.25


def test_the_weight_reads_like_that_of_a_layer_of_torch() -> None:
    """Shape, dtype, device and number of axes, as other libraries read them off ``module.weight``; it is the mean."""
    for layer, twin in (
        (WHVILinear(3, 5, terms=2), nn.Linear(3, 5)),
        (MeanFieldLinear(3, 5).double(), nn.Linear(3, 5).double()),
        (WHVIConv2d(2, 4, 3), nn.Conv2d(2, 4, 3)),
        (MCDropout(nn.Linear(3, 5)), nn.Linear(3, 5)),
    ):
        assert (layer.weight.size(), layer.weight.dtype, layer.weight.device) == (
            twin.weight.size(),
            twin.weight.dtype,
            twin.weight.device,
        )
        with whvi.mean_mode(layer):
            x = torch.randn(2, *twin.weight.shape[1:], dtype=twin.weight.dtype)
            expected = twin._conv_forward(x, layer.weight, None) if isinstance(twin, nn.Conv2d) else x @ layer.weight.T
            torch.testing.assert_close(layer(x) - layer(torch.zeros_like(x)), expected)
