"""Random features: a finite map phi with phi(x) . phi(y) close to a kernel, so that a linear model in phi is a GP."""

from collections.abc import Callable, Sequence
from math import log
from typing import Any

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.arguments import positive_number, whole_number
from whvi.errors import ArgumentError, DtypeError, ShapeError
from whvi.nn.parts import check_features
from whvi.structure.random import Fastfood, OrthogonalRandomFeatures


class GaussianProjection(nn.Module):
    """Omega with rows ~ N(0, I), independent or, with ``orthogonal``, orthogonal to each other in blocks.

    Args:
        in_features, out_features: the shape.
        orthogonal: each block of ``in_features`` rows is a random rotation whose rows get the lengths of independent
            normal vectors (Yu et al., 2016): each row has the same distribution, and together they cover all
            directions.
        generator: source of the random numbers; default torch's own.
        device, dtype: of the result; the same generator gives the same matrix in every precision.

    Law: forward(x) == x @ matrix.T.
    """

    matrix: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        orthogonal: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        blocks = -(-out_features // in_features)
        source: dict[str, Any] = {"dtype": torch.float64, "generator": generator}
        source["device"] = "cpu" if generator is None else generator.device
        normals = torch.randn(blocks, in_features, in_features, **source)
        if orthogonal:
            rotation, triangle = torch.linalg.qr(normals)
            # With the signs of the diagonal the rotation is uniform; its rows are so too.
            rotation = rotation * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
            lengths = torch.randn(normals.shape, **source).norm(dim=-1, keepdim=True)
            normals = rotation * lengths
        matrix = normals.flatten(0, 1)[:out_features]
        self.register_buffer("matrix", matrix.to(device, dtype or torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return x @ self.matrix.mT


PROJECTIONS: dict[str, Callable[..., nn.Module]] = {
    "gaussian": GaussianProjection,
    "orthogonal": lambda *sizes, **options: GaussianProjection(*sizes, orthogonal=True, **options),
    "sorf": OrthogonalRandomFeatures,
    "fastfood": Fastfood,
}
"""Random matrices by name: independent rows, orthogonal ones, and two products of Walsh-Hadamard transforms."""
KERNELS = ("rbf", "arccosine")


class RandomFeatures(nn.Module):
    """phi(x) with E[phi(x) . phi(y)] = k(x, y), from a random projection of x / lengthscale.

    - "rbf": k = variance exp(-|r|^2 / 2) for the scaled difference r; phi is half cosines, half sines.
    - "arccosine": k = variance |x| |y| (sin t + (pi - t) cos t) / pi for the angle t between scaled x and y; phi is
      rectified, so that a linear model in phi is a wide ReLU layer with random weights (Cho and Saul, 2009).

    Args:
        in_features: F.
        features: their number, which must be even for "rbf".
        kernel: one of ``KERNELS``.
        projection: one of ``PROJECTIONS``.
        lengthscale: one, or one for each input.
        variance: of the kernel.
        learn: whether lengthscales and variance are parameters; each input then has its own lengthscale.
        generator, device, dtype: as for the projections.

    Shapes: (..., F) -> (..., features).

    Law: the error of phi(x) . phi(y) as an estimate of k falls as 1 / sqrt(features).

    >>> phi = RandomFeatures(3, 4096, generator=torch.Generator().manual_seed(0))
    >>> x = torch.randn(5, 3)
    >>> bool((phi(x) @ phi(x).T - phi.exact(x, x)).abs().max() < 0.1)
    True
    """

    @checked
    def __init__(
        self,
        in_features: int,
        features: int,
        *,
        kernel: str = "rbf",
        projection: str = "gaussian",
        lengthscale: float | Sequence[float] | Tensor = 1.0,
        variance: float = 1.0,
        learn: bool = True,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        whole_number("in_features", in_features)
        whole_number("features", features)
        _known("kernel", kernel, KERNELS)
        _known("projection", projection, PROJECTIONS)
        if kernel == "rbf" and features % 2:
            raise ArgumentError(
                f"features of 'rbf' are pairs of cosine and sine, so their number must be even, got {features}"
            )
        scales = torch.as_tensor(lengthscale, dtype=torch.float64)
        if scales.shape not in ((), (in_features,)):
            raise ShapeError(
                f"lengthscale has shape {tuple(scales.shape)}; give one number, or one for each of {in_features} inputs"
            )
        if not bool((scales > 0).all() and scales.isfinite().all()):
            raise ArgumentError(f"lengthscale must be positive and finite, got {lengthscale}")
        variance = positive_number("variance", variance)
        if dtype is not None and not dtype.is_floating_point:
            raise DtypeError(f"dtype must be a real floating-point type, got {dtype}")
        self.in_features, self.features, self.kernel = in_features, features, kernel
        rows = features // 2 if kernel == "rbf" else features
        options = {"generator": generator, "device": device, "dtype": dtype}
        self.projection = PROJECTIONS[projection](in_features, rows, **options)
        like = torch.empty((), device=device, dtype=dtype or torch.get_default_dtype())
        self.log_lengthscale = nn.Parameter(scales.expand(in_features).log().to(like), requires_grad=learn)
        self.log_variance = nn.Parameter(torch.tensor(log(variance)).to(like), requires_grad=learn)

    @property
    def lengthscale(self) -> Tensor:
        """Of each input: (F)."""
        return self.log_lengthscale.exp()

    @property
    def variance(self) -> Tensor:
        """Of the kernel; a scalar."""
        return self.log_variance.exp()

    def forward(self, x: Tensor) -> Tensor:
        """phi(x): (..., F) -> (..., features)."""
        check_features(x, self.in_features)
        projected: Tensor = self.projection(x / self.lengthscale)
        scale = (2.0 * self.variance / self.features).sqrt()
        if self.kernel == "rbf":
            return torch.cat((projected.cos(), projected.sin()), dim=-1) * scale
        return projected.relu() * scale

    def exact(self, x: Tensor, y: Tensor) -> Tensor:
        """The kernel that the features approximate: (N, F) and (M, F) -> (N, M)."""
        x, y = x / self.lengthscale, y / self.lengthscale
        if self.kernel == "rbf":
            distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
            return self.variance * (-0.5 * distance.square()).exp()
        sizes: Tensor = x.norm(dim=-1).unsqueeze(-1) * y.norm(dim=-1)
        cosine = (x @ y.mT / sizes.clamp_min(torch.finfo(x.dtype).tiny)).clamp(-1.0, 1.0)
        angle = cosine.acos()
        return sizes * (angle.sin() + (torch.pi - angle) * cosine) * (self.variance / torch.pi)

    def extra_repr(self) -> str:
        """Sizes and kernel, for ``print``."""
        return f"{self.in_features}, {self.features}, kernel={self.kernel!r}"


def _known(name: str, value: str, names: Sequence[str] | dict[str, Callable[..., nn.Module]]) -> None:
    if value not in names:
        raise ArgumentError(f"{name} {value!r} is unknown; use one of: {', '.join(names)}")
