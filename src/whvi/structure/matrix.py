"""A structured weight of any shape: its product with x, its dense matrix, its factors."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from whvi.errors import ArgumentError, ShapeError, UnsupportedError
from whvi.ops import fwht
from whvi.ops.bias import add_bias
from whvi.ops.noise import KernelNoise, value_of
from whvi.ops.orders import split
from whvi.ops.product import Vector, cut, product
from whvi.structure.elements import inverse, permuted, xor_fold
from whvi.structure.plan import Plan
from whvi.structure.spec import Permutation, Step, Structure, parse
from whvi.structure.squares import transform


class StructuredMatrix:
    """W(g) = sum over t of A_t diag(g_t) B_t, of shape (out_features, in_features); linear in g and in x.

    Args:
        structure: the word, parsed.
        plan: how W is built from K blocks of side D, in rows and columns, and the number of terms T whose sum
            it is.
        scales: for each S of the word, from the left, ``(..., [T,] [K,] D)``, without the axis of a single one.
        permutations: for each P of the word, from the left, indices of the shape of a scale: P x = x[indices].
        shared: True if all K blocks of a term have one g, ``(..., [T,] D)``, False if g is ``(..., [T,] K, D)``.

    The leading axes of g, of the scales, of the permutations and of x are broadcast.

    Law: apply(g, x) == x @ dense(g).T, and blocks(g)[k] == left[k] @ diag(g) @ right[k] for each term.

    >>> from whvi.structure import make_plan, parse
    >>> s1, s2 = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 1.0])
    >>> w = StructuredMatrix(parse("SHGHS"), make_plan("stack", 2, 2), [s1, s2])
    >>> g, x = torch.tensor([1.0, 3.0]), torch.tensor([[1.0, 1.0]])
    >>> w.dense(g)
    tensor([[ 6., -1.],
            [-6.,  4.]])
    >>> w.apply(g, x)
    tensor([[ 5., -2.]])
    """

    __slots__ = ("permutations", "plan", "scales", "shared", "structure")

    def __init__(
        self,
        structure: Structure,
        plan: Plan,
        scales: Sequence[Tensor],
        permutations: Sequence[Tensor] = (),
        *,
        shared: bool = True,
    ) -> None:
        for name, given in (("scales", scales), ("permutations", permutations)):
            if len(given) != getattr(structure, name):
                raise ArgumentError(
                    f"structure {structure.word!r} has {getattr(structure, name)} {name}, got {len(given)}"
                )
        self.structure = structure
        self.plan = plan
        self.scales = scales
        self.permutations = permutations
        self.shared = shared

    def changed(self, change: Callable[[Tensor], Tensor]) -> "StructuredMatrix":
        """The matrix with its scales and permutations mapped by functions."""
        scales, permutations = [change(s) for s in self.scales], [change(p) for p in self.permutations]
        return StructuredMatrix(self.structure, self.plan, scales, permutations, shared=self.shared)

    def apply(self, g: Vector, x: Tensor, bias: Vector | None = None) -> Tensor:
        """W(g) x plus a bias: (..., in_features) -> (..., out_features)."""
        plan = self.plan
        if x.shape[-1] != plan.in_features:
            raise ShapeError(f"x has shape {tuple(x.shape)}; its last axis must be {plan.in_features}")
        if plan.layout == "reshape":
            several = plan.terms > 1  # an axis before that of the blocks, which all terms share
            y = self._contract(value_of(g), x.unsqueeze(-2) if several else x).to(x.dtype)
            return add_bias(y.sum(-2) if several else y, bias)
        matrix, g, vectors = self._summed(g, x) if plan.summed else (self, self._laid_out(g), self._pieces(x))
        stacked = plan.blocks > 1 or plan.summed
        if self.structure.core and not _plain(g):
            s1, s2 = matrix._core_scales()
            y = product(vectors, s1, g, s2, bias, stacked=stacked, summed=plan.summed, features=plan.out_features)
            return y.to(x.dtype)
        y = matrix._square(g, vectors, add_up=plan.summed)
        return add_bias(cut(y, stacked, plan.out_features).to(x.dtype), bias)

    def _pieces(self, x: Tensor) -> Tensor:
        """x, padded with zeros, for each block: (..., in_features) -> (..., [1, C,] [K or 1,] D)."""
        plan = self.plan
        missing = plan.columns * plan.size - plan.in_features
        if missing:
            x = pad(x, (0, missing))
        if plan.blocks == plan.terms == 1:
            return x
        alike = not (self.scales or self.permutations) and self.shared  # nothing tells the blocks apart
        rows = plan.rows if alike else 1
        if plan.summed:
            pieces: Tensor = x.unflatten(-1, (1, plan.columns, 1, plan.size))
            return pieces.expand(*x.shape[:-1], plan.terms if alike else 1, plan.columns, rows, plan.size)
        x = x.unsqueeze(-2)
        return x.expand(*x.shape[:-2], rows, plan.size) if alike else x

    def _summed(self, g: Vector, x: Tensor) -> tuple["StructuredMatrix", Vector, Tensor]:
        """All vectors with axes of terms, columns and blocks, (..., T, C, K, D), with size 1 for equal vectors."""
        plan = self.plan
        each = (plan.terms, plan.columns, plan.rows)
        own = (plan.terms, 1, 1) if self.shared else each

        def with_axes(vectors: Tensor, event: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
            return vectors.reshape(*vectors.shape[: vectors.ndim - len(event)], *axes, plan.size)

        event = plan.shared_shape if self.shared else plan.block_shape
        if isinstance(g, KernelNoise) and not self.structure.fused:
            g = g.value()
        if isinstance(g, KernelNoise):
            mean, log_std = (with_axes(vectors, event, own) for vectors in (g.mean, g.log_std))
            g = g._replace(mean=mean, log_std=log_std, lead=(*g.lead, *own))
        else:
            g = with_axes(g, event, own)
        return self.changed(lambda v: with_axes(v, plan.block_shape, each)), g, self._pieces(x)

    def dense(self, g: Tensor) -> Tensor:
        """W(g) itself: (..., out_features, in_features)."""
        plan = self.plan
        if plan.layout != "reshape" and plan.blocks == 1 and plan.out_features < plan.size:
            terms = self._rows(g)
        elif plan.layout == "reshape":
            terms = self.blocks(g).flatten(-2)[..., : plan.in_features]
        elif plan.columns > 1:
            blocks = self.blocks(g).unflatten(-3, (plan.columns, plan.rows))
            whole = blocks.movedim(-4, -2).flatten(-2).flatten(-3, -2)
            terms = whole[..., : plan.out_features, : plan.in_features]
        else:
            terms = self.blocks(g).flatten(-3, -2)[..., : plan.out_features, : plan.in_features]
        return terms if plan.terms == 1 else terms.sum(-3)

    def blocks(self, g: Tensor) -> Tensor:
        """The K square blocks of each term, uncut: (..., [T,] K, D, D)."""
        over_units = _new_axis(value_of(self._laid_out(g)), 1 + (self.plan.blocks > 1))
        return self._columns(lambda matrix, unit: matrix._square(over_units, unit), like=g)

    @property
    def left(self) -> Tensor:
        """A, dense: (..., [T,] K, D, D)."""
        return self._columns(lambda matrix, unit: matrix._steps(self.structure.left, unit), *self.scales[:1])

    @property
    def right(self) -> Tensor:
        """B, dense: (..., [T,] K, D, D)."""
        return self._columns(lambda matrix, unit: matrix._steps(self.structure.right, unit), *self.scales[:1])

    def gain(self) -> Tensor:
        """Mean square of the entries of W with the factor (H g)_m, for (H g)_m = 1: (..., D).

        W_ij = s1_i s2_j (H g)_(i xor j) / sqrt(D) for the structures [S] H G H [S]; others raise an error.
        """
        if not self.structure.core:
            raise UnsupportedError(f"the entries of W are not those of H g times scales for {self.structure.word!r}")
        if split(self.plan.size)[0] > 1:
            raise UnsupportedError(
                f"the entries of W are those of H g times scales where the side of a block is a power of two, not "
                f"{self.plan.size}; use pad_to='power_of_two', or another block"
            )
        ones = torch.ones_like(self.scales[0]) if self.scales else torch.ones(self.plan.block_shape)
        s1, s2 = (ones if s is None else s for s in self._core_scales())
        gain = fwht(fwht(s1.square()) * fwht(s2.square()), scale=float(self.plan.size) ** -3)
        return gain.mean(-2) if self.shared and self.plan.blocks > 1 else gain

    def _columns(self, product: Callable[["StructuredMatrix", Tensor], Tensor], like: Tensor | None = None) -> Tensor:
        """A square matrix for each block, whose columns are products with the unit vectors: (..., K, D, D)."""
        size, blocks = self.plan.size, self.plan.blocks
        unit = torch.eye(size) if like is None else torch.eye(size, dtype=like.dtype, device=like.device)
        axes = 1 if blocks == 1 else 2
        matrix = self.changed(lambda vectors: _new_axis(vectors, axes))
        if blocks == 1:
            return product(matrix, unit).mT.unsqueeze(-3)
        columns = product(matrix, unit.unsqueeze(-2)).movedim(-3, -1)
        return columns.expand(*columns.shape[:-3], blocks, size, size)

    def _rows(self, g: Tensor) -> Tensor:
        """W(g) of one block, row by row; fewer than its columns: (..., [T,] out_features, in_features).

        H and S are symmetric and the transpose of P is its inverse, so the transpose of W is that of the reversed
        word.
        """
        plan = self.plan
        scales = [_new_axis(scale, 1) for scale in reversed(self.scales)]
        inverses = [_new_axis(inverse(p), 1) for p in reversed(self.permutations)]
        transposed = StructuredMatrix(parse(self.structure.word[::-1]), plan, scales, inverses)
        unit = torch.eye(plan.out_features, plan.size, dtype=g.dtype, device=g.device)
        return transposed._square(_new_axis(g, 1), unit)[..., : plan.in_features]

    def _square(self, g: Vector, x: Tensor, *, add_up: bool = False) -> Tensor:
        """All blocks times x: (..., [1,] D) -> (..., [K,] D), or summed over terms and columns (``_summed``).

        The operator sums if no step follows it; otherwise there is a result for each term and column.
        """
        structure = self.structure
        if _plain(g):
            y = self._steps(structure.left, value_of(g) * self._steps(structure.right, x))
            return y.sum((-4, -3)) if add_up else y
        x = self._steps(structure.before, x)
        added = add_up and structure.fused and not structure.after
        if structure.fused:
            s1, s2 = self._core_scales()
            y = product(x, s1, g, s2, summed=added)
        else:
            y = value_of(g) * x
        y = self._steps(structure.after, y)
        return y.sum((-4, -3)) if add_up and not added else y

    def _core_scales(self) -> tuple[Tensor | None, Tensor | None]:
        outer, inner = self.structure.outer, self.structure.inner
        return None if outer is None else self.scales[outer], None if inner is None else self.scales[inner]

    def _steps(self, steps: tuple[Step, ...], x: Tensor) -> Tensor:
        for step in steps:
            if isinstance(step, Permutation):
                x = permuted(x, self.permutations[step.number])
            else:
                x = self._transform(x) if step is None else self.scales[step] * x
        return x

    def _transform(self, x: Tensor) -> Tensor:
        return transform(x, self.plan.size**-0.5)

    def _laid_out(self, g: Vector) -> Vector:
        """g with an axis for the blocks, if there are several; noise with all axes of its draws."""
        plan = self.plan
        if self.structure.fused and len(plan.block_shape) == 1:
            return g
        one_for_all = plan.blocks > 1 and self.shared
        if isinstance(g, KernelNoise) and not self.structure.fused:
            g = g.value()
        if isinstance(g, KernelNoise):
            drawn = plan.shared_shape[:-1] + (1,) * one_for_all if self.shared else plan.block_shape[:-1]
            return g._replace(
                mean=_over_blocks(g.mean) if one_for_all else g.mean,
                log_std=_over_blocks(g.log_std) if one_for_all else g.log_std,
                lead=(*g.lead, *drawn),
            )
        return _over_blocks(g) if one_for_all else g

    def _contract(self, g: Tensor, x: Tensor) -> Tensor:
        """Inner products of x, seen as a D x D matrix X, with the blocks: (..., in_features) -> (..., K).

        Outer factors move over to X, <X, S W> = <S X, W>. Of the core only the folded X is needed, because
        (H diag(g) H)_ij is element i xor j of a vector: time O(D^2), which reading x takes anyway, plus O(D log D).
        """
        plan, structure = self.plan, self.structure
        several = plan.blocks > 1
        own, each = (len(shape) for shape in (plan.shared_shape, plan.block_shape))
        if g.ndim == (own if self.shared else each) and all(s.ndim == each for s in (*self.scales, *self.permutations)):
            return linear(x, self.dense(g).to(x.dtype))  # one weight for all rows
        x = pad(x, (0, plan.size**2 - plan.in_features)).unflatten(-1, (plan.size, plan.size))
        if several:
            x, g = x.unsqueeze(-3), value_of(self._laid_out(g))
        core = 1 if structure.fused else 0
        rows = self.changed(lambda vectors: vectors.unsqueeze(-2))
        x = rows._steps(structure.right[: len(structure.right) - core], x)
        rows.permutations = [inverse(permutation) for permutation in rows.permutations]  # the transpose of A
        x = rows._steps(structure.left[core:][::-1], x.mT).mT
        if structure.fused:
            y = (xor_fold(x) * fwht(g, scale=1 / plan.size)).sum(-1)
        else:
            y = (x.diagonal(dim1=-2, dim2=-1) * g).sum(-1)
        return y.expand(*y.shape[:-1], plan.blocks) if several else y.unsqueeze(-1)


def _plain(g: Vector) -> bool:
    """Whether to use torch's own operators: in exported graphs without noise, which then run anywhere."""
    return isinstance(g, Tensor) and torch.compiler.is_exporting()


def _over_blocks(vectors: Tensor) -> Tensor:
    """One vector for all blocks, if other vectors have a blocks axis: (..., D) -> (..., 1, D)."""
    return vectors.unsqueeze(-2) if vectors.ndim > 1 else vectors


def _new_axis(vectors: Tensor, event_axes: int) -> Tensor:
    """An axis for the unit vectors before the last axes, if there are leading axes."""
    return vectors.unsqueeze(-1 - event_axes) if vectors.ndim > event_axes else vectors
