"""Fixed random matrices for random features, in place of a matrix of independent normals."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from whvi.annotations import checked
from whvi.errors import ArgumentError, ShapeError
from whvi.ops import fwht
from whvi.ops.checks import check_shape
from whvi.ops.torch_private import standard_gamma
from whvi.structure.plan import Plan, make_plan

_Step = Tensor | None


class RandomOperator(nn.Module):
    """Omega of shape (out_features, in_features): the first rows and columns of K stacked products of H with others.

    Args:
        plan: how Omega is built from K blocks of side D.
        steps: the factors in the order of application: None is the orthonormal H, a floating-point tensor (K, D)
            a diagonal for each block, an integer tensor (K, D) a permutation for each: element i takes element p_i.
        device, dtype: of the diagonals.

    The factors are buffers: they are saved with the model and not trained.

    Law: forward(x) == x @ dense().T, in time O(out_features log D).
    """

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[_Step],
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.plan = plan
        self.in_features, self.out_features = plan.in_features, plan.out_features
        device, dtype = device or torch.get_default_device(), dtype or torch.get_default_dtype()
        self._length = len(steps)
        for number, step in enumerate(steps):
            if step is not None:
                step = step.to(device, dtype if step.is_floating_point() else step.dtype)
            self.register_buffer(f"step{number}", step)

    def forward(self, x: Tensor) -> Tensor:
        """Omega x: (..., in_features) -> (..., out_features)."""
        plan = self.plan
        if x.ndim == 0 or x.shape[-1] != plan.in_features:
            raise ShapeError(
                f"x has shape {tuple(x.shape)}, but its last axis must be in_features = {plan.in_features}"
            )
        x = pad(x, (0, plan.size - plan.in_features)).unsqueeze(-2).expand(*x.shape[:-1], plan.blocks, plan.size)
        for step in self._steps():
            if step is None:
                x = fwht(x, scale=plan.size**-0.5)
            elif step.is_floating_point():
                x = step * x
            else:
                x = x.gather(-1, step.expand_as(x))
        return x.flatten(-2)[..., : plan.out_features]

    def dense(self) -> Tensor:
        """Omega itself: (out_features, in_features)."""
        like = next(step for step in self._steps() if step is not None and step.is_floating_point())
        unit = torch.eye(self.in_features, dtype=like.dtype, device=like.device)
        columns: Tensor = self(unit)
        return columns.T

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.in_features}, {self.out_features}, blocks={self.plan.blocks} x {self.plan.size}"

    def _steps(self) -> Iterator[_Step]:
        return (getattr(self, f"step{number}") for number in range(self._length))


class Fastfood(RandomOperator):
    """Omega = sqrt(D) S H G P H B for each block (Le, Sarlos and Smola, 2013), with the orthonormal H.

    B holds random signs, P is a permutation, G holds standard normals, and S lengths of normal vectors over that of G:
    each row has the length, and each entry the distribution, of those of a matrix of independent standard normals.

    Args:
        in_features, out_features: the shape; D is the power of two that holds in_features.
        generator: source of the random numbers; default torch's own.
        device, dtype: of the result; the same generator gives the same operator in every precision.

    >>> _ = torch.manual_seed(0)
    >>> omega = Fastfood(3, 1000)
    >>> omega(torch.ones(3)).shape, f"{omega.dense().std():.1f}"
    (torch.Size([1000]), '1.0')
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        plan = make_plan("stack", in_features, out_features)
        source = _Source(plan, generator)
        signs, permutation, normals, lengths = source.signs(), source.permutation(), source.normals(), source.lengths()
        lengths *= plan.size**0.5 / normals.norm(dim=-1, keepdim=True)
        super().__init__(plan, [signs, None, permutation, normals, None, lengths], device=device, dtype=dtype)


class OrthogonalRandomFeatures(RandomOperator):
    """Omega = sqrt(D) H D_1 H D_2 H D_3 for each block, D_i random signs (structured ORF of Yu et al., 2016).

    The rows of a block are orthogonal and have the length sqrt(D), the typical one of normal vectors: the variance of a
    kernel estimate is much smaller than for independent rows, and there is a bias, which falls with D.

    Args:
        in_features, out_features: the shape; D is the power of two that holds in_features.
        products: number of factors H D_i.
        generator: source of the random numbers; default torch's own.
        device, dtype: of the result; the same generator gives the same operator in every precision.

    Law: dense() @ dense().T == D I for one whole block.

    >>> omega = OrthogonalRandomFeatures(4, 4).dense()
    >>> torch.allclose(omega @ omega.T, 4 * torch.eye(4), atol=1e-5)
    True
    """

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        products: int = 3,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if products < 1:
            raise ArgumentError(f"products must be at least 1, got {products}")
        plan = make_plan("stack", in_features, out_features)
        source = _Source(plan, generator)
        signs = [source.signs() for _ in range(products)]
        signs[0] *= plan.size**0.5  # the length of the rows rides on the first factor
        super().__init__(plan, [step for each in signs for step in (each, None)], device=device, dtype=dtype)


class _Source(NamedTuple):
    """Random numbers (K, D) for the blocks of a plan, always in float64."""

    plan: Plan
    generator: torch.Generator | None

    def normals(self) -> Tensor:
        return self._empty().normal_(generator=self.generator)

    def signs(self) -> Tensor:
        return self._empty().bernoulli_(generator=self.generator).mul_(2.0).sub_(1.0)

    def permutation(self) -> Tensor:
        return random_permutation((self.plan.blocks, self.plan.size), self._device(), self.generator)

    def lengths(self) -> Tensor:
        """Lengths of vectors of D normals: roots of chi-square variables, which are twice gamma variables."""
        shape = self._empty().fill_(0.5 * self.plan.size)
        if standard_gamma is None:  # slower, and other numbers of the same distribution
            normals = torch.randn(*shape.shape, self.plan.size, generator=self.generator, device=shape.device)
            return normals.square().sum(-1).sqrt()
        return standard_gamma(shape, generator=self.generator).mul_(2.0).sqrt_()

    def _empty(self) -> Tensor:
        return torch.empty(self.plan.blocks, self.plan.size, dtype=torch.float64, device=self._device())

    def _device(self) -> torch.device | str:
        return self.generator.device if self.generator is not None else "cpu"


@checked
def random_permutation(
    shape: Sequence[int], device: torch.device | str | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """A permutation of the last axis for each place before it, uniformly drawn: whole numbers of that shape."""
    check_shape("shape", shape)
    if not shape:
        raise ShapeError("shape is empty, but a permutation has at least one axis")
    return torch.empty(*shape, dtype=torch.float64, device=device).uniform_(generator=generator).argsort(-1)
