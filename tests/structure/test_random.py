"""Fixed random operators: products against the dense twin, and the statistics that random features rely on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from whvi.errors import ArgumentError, ShapeError
from whvi.structure import Fastfood, OrthogonalRandomFeatures, RandomOperator

Make = Callable[..., RandomOperator]
every_kind = pytest.mark.parametrize("make", [Fastfood, OrthogonalRandomFeatures])
SHAPES = [(1, 1), (1, 5), (2, 2), (3, 3), (8, 8), (8, 20), (5, 3), (7, 30)]


def draws(make: Make, count: int, *shape: int, **options: Any) -> Tensor:
    """Independent operators, dense: (count, out, in)."""
    generator = torch.Generator().manual_seed(1)
    return torch.stack(
        [make(*shape, generator=generator, dtype=torch.float64, **options).dense() for _ in range(count)]
    )


@every_kind
@pytest.mark.parametrize(("in_features", "out_features"), SHAPES)
def test_product_is_that_of_the_dense_twin(make: Make, in_features: int, out_features: int) -> None:
    omega = make(in_features, out_features, dtype=torch.float64)
    dense = omega.dense()
    assert dense.shape == (out_features, in_features)
    x = torch.randn(2, 3, in_features, dtype=torch.float64)
    assert_close(omega(x), x @ dense.T)
    assert_close(omega(x[0, 0]), dense @ x[0, 0])
    assert omega(x[:0]).shape == (0, 3, out_features)


def test_fastfood_is_the_product_of_its_factors() -> None:
    size = 8
    omega = Fastfood(size, size, dtype=torch.float64)
    b, _, p, g, _, s = omega._steps()
    h = torch.tensor([[(-1.0) ** (i & j).bit_count() for j in range(size)] for i in range(size)], dtype=torch.float64)
    permutation = torch.eye(size, dtype=torch.float64)[p[0]]
    expected = s[0].diag() @ h @ g[0].diag() @ permutation @ h @ b[0].diag() / size
    assert_close(omega.dense(), expected)
    assert (b.abs() == 1).all()
    assert (p[0].sort().values == torch.arange(size)).all()
    assert_close(omega.dense().norm(dim=1), s[0] * g.norm() / size**0.5)  # the lengths of S alone, those of G cancel


@pytest.mark.parametrize("products", [1, 2, 3])
def test_rows_of_a_block_are_orthogonal(products: int) -> None:
    omega = OrthogonalRandomFeatures(8, 24, products=products, dtype=torch.float64).dense()
    for block in omega.split(8):
        assert_close(block @ block.T, 8 * torch.eye(8, dtype=torch.float64))
    assert (omega[:8] - omega[8:16]).norm() > 1  # each block has signs of its own
    if products > 1:
        assert (omega.abs() - 1).abs().max() > 0.1


@every_kind
def test_entries_have_mean_zero_and_variance_one(make: Make) -> None:
    samples = draws(make, 4000, 8, 8)
    error = len(samples) ** -0.5
    assert (samples.mean(0).abs() < 4 * error).all()
    assert ((samples.square().mean(0) - 1).abs() < 4 * samples.square().std(0) * error).all()
    products = samples[:, 0, :1] * samples[:, 0, 1:]
    assert (products.mean(0).abs() < 4 * products.std(0) * error).all()  # entries of a row do not correlate


def test_fastfood_has_the_moments_of_normals() -> None:
    samples = draws(Fastfood, 4000, 4, 4)
    error = len(samples) ** -0.5
    for power, moment, spread in ((4, 3.0, 96.0), (6, 15.0, 10170.0)):  # E[z^n] and var(z^n) of a standard normal
        assert ((samples.pow(power).mean(0) - moment).abs() < 4 * spread**0.5 * error).all()
    squares = samples.square().sum(-1)  # chi-square with 4 degrees of freedom has the variance 8
    deviations = (squares - 4).square()
    assert ((deviations.mean(0) - 8).abs() < 4 * deviations.std(0) * error).all()


@pytest.mark.parametrize(("make", "worst"), [(Fastfood, 1.5), (OrthogonalRandomFeatures, 0.3)])
def test_kernel_estimate_closes_in_on_the_gaussian_kernel(make: Make, worst: float) -> None:
    """E[cos(w.d)] = exp(-|d|^2 / 2): the error beside that of independent normals, which is known."""
    difference = torch.randn(64, dtype=torch.float64)
    difference *= 0.5**0.5 / difference.norm()
    exact = torch.exp(-0.5 * difference.square().sum())
    generator = torch.Generator().manual_seed(2)

    def error(features: int) -> float:
        """Root mean square over 100 operators."""
        omegas = (make(64, features, generator=generator, dtype=torch.float64) for _ in range(100))
        return float(torch.stack([omega(difference).cos().mean() - exact for omega in omegas]).square().mean().sqrt())

    errors = {features: error(features) for features in (64, 512, 4096)}
    assert errors[64] > 1.5 * errors[512] > 1.5**2 * errors[4096]
    for features, value in errors.items():
        assert value < worst * float(1 - exact**2) / (2 * features) ** 0.5


@every_kind
def test_generator_repeats_the_operator_in_every_precision(make: Make) -> None:
    def made(seed: int, **options: Any) -> Tensor:
        return make(5, 12, generator=torch.Generator().manual_seed(seed), **options).dense()

    assert (made(3) == made(3)).all()
    assert (made(3) - made(4)).abs().max() > 0.1
    assert_close(made(3, dtype=torch.float64).float(), made(3))
    torch.manual_seed(5)
    first = make(5, 12).dense()
    assert (make(5, 12).dense() - first).abs().max() > 0.1
    torch.manual_seed(5)
    assert (make(5, 12).dense() == first).all()


@every_kind
def test_state_dict_carries_the_operator(make: Make) -> None:
    omega, other = make(5, 12), make(5, 12)
    assert not list(omega.parameters())
    assert (omega.dense() - other.dense()).abs().max() > 0.1
    other.load_state_dict(omega.state_dict())
    assert (omega.dense() == other.dense()).all()
    half = omega.to(torch.bfloat16)
    assert half(torch.ones(5, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_gradient_and_vmap_pass_through() -> None:
    omega = Fastfood(3, 10, dtype=torch.float64)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(omega, (x,))
    assert_close(torch.vmap(omega)(x), omega(x))


@every_kind
def test_mistakes_are_named(make: Make) -> None:
    with pytest.raises(ShapeError, match=r"\(2, 4\).*in_features = 3"):
        make(3, 5)(torch.ones(2, 4))
    with pytest.raises(ArgumentError, match="out_features must be at least 1"):
        make(3, 0)


def test_number_of_products_is_checked() -> None:
    with pytest.raises(ArgumentError, match="products must be at least 1, got 0"):
        OrthogonalRandomFeatures(4, 4, products=0)
