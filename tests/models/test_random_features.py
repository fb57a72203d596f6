"""Random features against the kernel that they approximate."""

from typing import Any

import pytest
import torch
from numpy import log, polyfit
from torch import Tensor
from torch.testing import assert_close

from whvi.errors import ArgumentError, DtypeError, ShapeError
from whvi.models import KERNELS, PROJECTIONS, RandomFeatures

UNBIASED = ("gaussian", "orthogonal", "fastfood")
F64: dict[str, Any] = {"dtype": torch.float64}


def points(count: int = 6, inputs: int = 4) -> Tensor:
    return torch.randn(count, inputs, generator=torch.Generator().manual_seed(1), **F64)


def errors(features: int, repeats: int, **options: Any) -> Tensor:
    """phi . phi - k for independent features: (repeats, pairs of different points)."""
    x, generator = points(), torch.Generator().manual_seed(2)
    found = []
    for _ in range(repeats):
        phi = RandomFeatures(
            4, features, generator=generator, lengthscale=[0.5, 1.0, 2.0, 4.0], variance=1.7, **F64, **options
        )
        found.append((phi(x) @ phi(x).mT - phi.exact(x, x)).detach())
    above = torch.triu(torch.ones(6, 6), 1).bool()  # of a point with itself the cosines and sines have no error
    return torch.stack(found)[:, above]


@pytest.mark.parametrize("kernel", KERNELS)
def test_error_falls_as_the_root_of_the_number_of_features(kernel: str) -> None:
    sizes = (64, 256, 1024, 4096)
    found = [float(errors(n, 40, kernel=kernel).square().mean().sqrt()) for n in sizes]
    slope, _ = polyfit(log(sizes), log(found), 1)
    assert abs(slope + 0.5) < 0.06


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("projection", UNBIASED)
def test_features_are_unbiased(kernel: str, projection: str) -> None:
    found = errors(16, 1000, kernel=kernel, projection=projection)
    assert ((found.mean(0) / (found.std(0) / len(found) ** 0.5)).abs() < 4.5).all()


def test_fixed_lengths_need_many_inputs() -> None:
    """Rows of "sorf" have one length and few directions: no kernel of four inputs, a good one of 64."""
    assert errors(4096, 5, projection="sorf").abs().max() > 0.3
    x = points(6, 64)
    phi = RandomFeatures(64, 4096, projection="sorf", lengthscale=8.0, **F64)
    assert (phi(x) @ phi(x).mT - phi.exact(x, x)).abs().max() < 0.1


def test_orthogonal_rows_make_the_error_smaller() -> None:
    independent, orthogonal = (errors(64, 300, projection=name).square().mean() for name in ("gaussian", "orthogonal"))
    assert orthogonal < 0.9 * independent


def test_the_arc_cosine_kernel_is_that_of_a_wide_layer() -> None:
    """E[2 relu(w . x) relu(w . y)] for x = y is |x|^2, and for x = -y it is zero."""
    phi = RandomFeatures(4, 8, kernel="arccosine", **F64)
    x = points()
    kernel = phi.exact(x, x)
    assert_close(kernel.diagonal(), x.square().sum(1))
    assert_close(phi.exact(x, -x).diagonal(), torch.zeros(6, **F64), atol=1e-7, rtol=0.0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_lengthscales_are_those_of_the_inputs(kernel: str) -> None:
    scales = torch.tensor([0.5, 1.0, 2.0, 4.0], **F64)
    ours, plain = (
        RandomFeatures(4, 32, kernel=kernel, lengthscale=s, generator=torch.Generator().manual_seed(0), **F64)
        for s in (scales, 1.0)
    )
    assert_close(ours(points()), plain(points() / scales))
    assert_close(ours.exact(points(), points()), plain.exact(points() / scales, points() / scales))


def test_what_is_learned() -> None:
    free, fixed = RandomFeatures(3, 8), RandomFeatures(3, 8, learn=False)
    free(torch.randn(5, 3)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in free.parameters())
    assert not any(p.requires_grad for p in fixed.parameters())
    assert free.lengthscale.shape == (3,)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_features_are_saved_with_the_model(projection: str) -> None:
    one, other = (RandomFeatures(3, 64, projection=projection) for _ in range(2))
    x = torch.randn(5, 3)
    assert not torch.equal(one(x), other(x))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(x), other(x))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kernel": "matern"}, ArgumentError, "kernel 'matern' is unknown; use one of: rbf, arccosine"),
        ({"projection": "dct"}, ArgumentError, "projection 'dct' is unknown; use one of: gaussian, orthogonal"),
        ({"lengthscale": [1.0, 2.0]}, ShapeError, r"shape \(2,\); give one number, or one for each of 3 inputs"),
        ({"lengthscale": -1.0}, ArgumentError, "must be positive and finite"),
        ({"variance": 0.0}, ArgumentError, "must be positive and finite"),
        ({"features": 7}, ArgumentError, "give an even number, got 7|so their number must be even, got 7"),
        ({"features": 0}, ArgumentError, "features must be at least 1, got 0"),
        ({"dtype": torch.int64}, DtypeError, "real floating-point"),
    ],
)
def test_bad_input(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        RandomFeatures(3, options.pop("features", 8), **options)


def test_bad_rows() -> None:
    with pytest.raises(ShapeError, match="in_features = 3"):
        RandomFeatures(3, 8)(torch.zeros(5, 4))
