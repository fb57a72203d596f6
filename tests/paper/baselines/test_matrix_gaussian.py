"""Layers with matrix-variate Gaussian weights: the shipped contract, the law of the draws, the KL."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal, kl_divergence
from torch.nn.functional import linear

import whvi.nn as wnn
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError
from whvi.nn import BayesianLayer
from whvi.testing import LayerContract, perturb
from whvi.testing.compare import assert_moments
from whvi_paper.baselines import MatrixGaussianConv2d, MatrixGaussianLinear
from whvi_paper.baselines.matrix_gaussian import MatrixGaussian

F64: dict[str, Any] = {"dtype": torch.float64}
GEOMETRIES: dict[str, dict[str, Any]] = {
    "plain": {"kernel_size": 2, "draws": "example"},
    "everything": {
        "kernel_size": (2, 3), "stride": (1, 2), "padding": 2, "dilation": (2, 1), "groups": 2,
        "padding_mode": "reflect", "draws": "example",
    },
    "without a bias": {"kernel_size": 3, "padding": "same", "bias": False, "groups": 4, "draws": "example"},
}  # fmt: skip
Make = Callable[[], MatrixGaussian]


def spread_out(layer: MatrixGaussian) -> MatrixGaussian:
    """The layer away from the start: roots that are dense triangles."""
    perturb(layer)
    with torch.no_grad():
        for root, size in ((layer.output_root, 0.5), (layer.input_root, 0.6)):
            triangle = 0.4 * torch.randn_like(root).tril(-1)
            triangle.diagonal(dim1=-2, dim2=-1).copy_(0.5 + torch.rand(root.shape[:-1]))
            root.copy_(size * (triangle.mT if root is layer.input_root else triangle))
    return layer


def linear_layer(bias: bool = True) -> MatrixGaussian:
    return spread_out(MatrixGaussianLinear(5, 3, bias, prior_variance=0.7, draws="example", **F64))


def conv_layer(**options: Any) -> MatrixGaussian:
    return spread_out(MatrixGaussianConv2d(4, 8, prior_variance=0.7, **options, **F64))


MAKES: dict[str, Make] = {
    "linear": linear_layer,
    "no bias": lambda: linear_layer(False),
    "groups": lambda: spread_out(MatrixGaussianConv2d(2, 4, (1, 2), groups=2, prior_variance=0.7, **F64)),
}


@pytest.mark.parametrize("bias", [True, False])
class TestLinear(LayerContract):
    local = True

    @pytest.fixture
    def layer(self, bias: bool) -> BayesianLayer:
        return linear_layer(bias)

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 5, **F64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return linear(x, weight, bias)


@pytest.mark.parametrize("options", GEOMETRIES.values(), ids=GEOMETRIES)
class TestConvolution(LayerContract):
    samples = 2000
    local, joint = True, False

    @pytest.fixture
    def layer(self, options: dict[str, Any]) -> BayesianLayer:
        self.reference = nn.Conv2d(4, 8, **{k: v for k, v in options.items() if k != "draws"}, **F64)
        return conv_layer(**options)

    @pytest.fixture
    def inputs(self) -> Tensor:
        return torch.randn(6, 4, 3, 4, **F64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        state = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
        output: Tensor = torch.func.functional_call(self.reference, state, (x,))
        return output


def dense_law(layer: MatrixGaussian) -> tuple[Tensor, Tensor]:
    """Mean and covariance of [W b], row after row, from a Kronecker product for each group."""
    with torch.no_grad():
        pairs = zip(layer.output_root, layer.input_root, strict=True)
        covariances = [torch.kron(left @ left.mT, right @ right.mT) for left, right in pairs]
        return layer.mean.detach().flatten(), torch.block_diag(*covariances)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_kl_is_that_of_the_dense_gaussian(make: Make) -> None:
    layer = make()
    mean, covariance = dense_law(layer)
    prior = MultivariateNormal(torch.zeros_like(mean), 0.7 * torch.eye(len(mean), **F64))
    expected = kl_divergence(MultivariateNormal(mean, covariance), prior)
    torch.testing.assert_close(layer.kl().detach(), expected, rtol=1e-12, atol=0.0)
    (gradient,) = torch.autograd.grad(layer.kl(), [layer.mean])
    torch.testing.assert_close(gradient, layer.mean.detach() / 0.7)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_draws_have_the_kronecker_covariance(make: Make) -> None:
    layer = make()
    with torch.no_grad():
        assert_moments(layer.matrix(layer.draw((20_000,))).flatten(1), *dense_law(layer))


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_outputs_are_the_product_of_the_rows(make: Make) -> None:
    """What curvature is made of: input_rows @ [W b]^T == output_rows."""
    layer = make()
    x = torch.randn(3, 2, 5, **F64) if layer.feature_axes == 1 else torch.randn(3, 2, 2, 4, 5, **F64)
    with wnn.sampling(layer) as draws:
        y = layer(x)
    matrix = layer.matrix(draws[layer]).unflatten(0, (layer.groups, -1))
    torch.testing.assert_close(layer.output_rows(y), layer.input_rows(x) @ matrix.mT)


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_gradient_at_zero_input_is_finite(make: Make) -> None:
    layer = make()
    layer.draws = "example"
    zero = torch.zeros(4, *((5,) if layer.feature_axes == 1 else (2, 3, 3)), **F64).requires_grad_()
    for gradient in torch.autograd.grad(layer(zero).square().sum(), [zero, layer.mean]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize(("size", "weight_variance"), [(4096, None), (64, None), (64, 0.25)])
def test_start(size: int, weight_variance: float | None) -> None:
    layer = MatrixGaussianLinear(size, 200, weight_variance=weight_variance)
    variance = weight_variance or 1 / size
    assert layer.weight_at().var().item() == pytest.approx(variance, rel=0.05)
    assert (layer.bias_value() == 0).all()
    spread = (layer.weight_at(layer.draw((2,))) - layer.weight_at()).std()
    assert spread.item() == pytest.approx(math.exp(-2.0) * variance**0.5, rel=0.02)
    assert list(dict(layer.named_parameters())) == ["mean"]
    assert set(layer.state_dict()) == {"mean", "output_root", "output_moment", "input_root", "input_moment"}


def test_layers_of_a_model_add_up_and_count_once() -> None:
    layer = MatrixGaussianLinear(4, 4)
    assert wnn.kl(nn.Sequential(layer, nn.ReLU(), layer)) == layer.kl()


def test_errors_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match="in_features must be at least 1, got 0"):
        MatrixGaussianLinear(0, 1)
    with pytest.raises(InputTypeError, match="bias must be True or False, got 'point'"):
        MatrixGaussianLinear(2, 2, "point")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="prior variance must be positive"):
        MatrixGaussianLinear(2, 2, prior_variance=0.0)
    with pytest.raises(ArgumentError, match="weight_variance must be positive"):
        MatrixGaussianConv2d(3, 4, 3, weight_variance=0.0)
    with pytest.raises(ArgumentError, match="groups"):
        MatrixGaussianConv2d(3, 4, 3, groups=2)
    with pytest.raises(ArgumentError, match="draws must be"):
        MatrixGaussianConv2d(3, 4, 3, draws="both")
    with pytest.raises(DtypeError, match="dtype must be a real floating-point type"):
        MatrixGaussianLinear(3, 4, dtype=torch.int64)
    with pytest.raises(ShapeError, match="in_channels = 3"):
        MatrixGaussianConv2d(3, 4, 3)(torch.zeros(4, 4, 4))
    with pytest.raises(DtypeError, match="float64"):
        MatrixGaussianLinear(3, 4)(torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize("rows", [1, 2, 40])  # few rows do without the matrix
@pytest.mark.parametrize("bias", [True, False])
def test_few_rows_and_many_meet_the_same_matrix(rows: int, bias: bool) -> None:
    layer = spread_out(MatrixGaussianLinear(9, 7, bias, **F64))
    x = torch.randn(3 * rows, 9, **F64)
    with wnn.sampling(layer, 3) as draws:
        draw = draws[layer]
        assert draw is not None
        weight, value = layer.weight_at(draw), layer.bias_value(draw)
        expected = x.unflatten(0, (3, rows)) @ weight.mT + (0.0 if value is None else value.unsqueeze(-2))
        torch.testing.assert_close(layer(x), expected.flatten(0, 1))
