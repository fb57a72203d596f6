"""The contract of a structured matrix."""

from typing import NamedTuple

import torch
from torch import Tensor

from whvi.errors import ShapeError
from whvi.structure import StructuredMatrix
from whvi.testing.compare import assert_close, assert_same_gradients, message_of

VALUE, GRADIENT = 1e-12, 1e-10
"""Relative errors that float64 must keep to."""


class MatrixCase(NamedTuple):
    """A structured matrix with one g for it, and inputs: all float64 leaves that require gradients."""

    matrix: StructuredMatrix
    g: Tensor
    """(D) or (K, D), as the matrix wants it."""
    x: Tensor
    """(n, in_features), n > 1."""

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Everything that a gradient is asked for."""
        return (self.g, self.x, *self.matrix.scales)


class StructureContract:
    """Invariants of W(g) = A diag(g) B. A subclass gives the fixture ``matrix_case``, a :class:`MatrixCase`."""

    def test_apply_is_the_dense_product(self, matrix_case: MatrixCase) -> None:
        """apply(g, x) == x @ dense(g).T."""
        matrix, g, x = matrix_case
        actual, expected = matrix.apply(g, x), x @ matrix.dense(g).mT
        assert_close(actual, expected, VALUE)
        assert_same_gradients(actual, expected, matrix_case.leaves, GRADIENT)

    def test_a_g_for_each_row(self, matrix_case: MatrixCase) -> None:
        """Row i of apply(g, x) is dense(g_i) x_i, in value and in gradient; this is the path of ``draws="example"``."""
        matrix, g, x = matrix_case
        several = rows_of(g, x.shape[0])
        actual = matrix.apply(several, x)
        expected = torch.stack([matrix.dense(several[i]) @ x[i] for i in range(x.shape[0])])
        assert_close(actual, expected, VALUE)
        assert_same_gradients(actual, expected, matrix_case.leaves, GRADIENT)
        assert_close(torch.einsum("noi,ni->no", matrix.dense(several), x), expected, VALUE, "batched dense")

    def test_a_scale_for_each_row(self, matrix_case: MatrixCase) -> None:
        """Scales may have leading axes too: row i uses scales i."""
        case, g, x = matrix_case
        scales = [rows_of(s, x.shape[0]) for s in case.scales]
        fixed = case.permutations
        batched = StructuredMatrix(case.structure, case.plan, scales, fixed, shared=case.shared)
        several = rows_of(g, x.shape[0])
        single = [
            StructuredMatrix(case.structure, case.plan, [s[i] for s in scales], fixed, shared=case.shared)
            for i in range(x.shape[0])
        ]
        expected = torch.stack([w.dense(several[i]) @ x[i] for i, w in enumerate(single)])
        actual = batched.apply(several, x)
        assert_close(actual, expected, VALUE)
        assert_same_gradients(actual, expected, matrix_case.leaves, GRADIENT)
        assert_close(batched.dense(several), torch.stack([w.dense(several[i]) for i, w in enumerate(single)]), VALUE)

    def test_leading_axes(self, matrix_case: MatrixCase) -> None:
        """x may have any leading axes, also none and empty ones."""
        matrix, g, x = matrix_case
        expected = matrix.apply(g, x)
        assert_close(matrix.apply(g, x[0]), expected[0], VALUE)
        assert_close(matrix.apply(g, x.expand(2, 1, *x.shape)), expected.expand(2, 1, *expected.shape), VALUE)
        assert matrix.apply(g, x[:0]).shape == expected[:0].shape

    def test_blocks_are_left_g_right(self, matrix_case: MatrixCase) -> None:
        """blocks(g)[k] == left[k] @ diag(g_k) @ right[k]."""
        matrix, g, _ = matrix_case
        over_blocks = g.unsqueeze(-2) if matrix.shared or matrix.plan.blocks == 1 else g
        # Without scales the factors know no dtype, and are in torch's default one.
        relative = VALUE if matrix.left.dtype == g.dtype else 1e-6
        expected = matrix.left.to(g.dtype) @ torch.diag_embed(over_blocks) @ matrix.right.to(g.dtype)
        assert_close(matrix.blocks(g), expected, relative)

    def test_linear_in_g(self, matrix_case: MatrixCase) -> None:
        """apply(a g + b h, x) == a apply(g, x) + b apply(h, x)."""
        matrix, g, x = matrix_case
        other = torch.linspace(-1.0, 2.0, g.numel(), dtype=g.dtype).reshape(g.shape)
        combined = matrix.apply(0.5 * g - 3.0 * other, x)
        assert_close(combined, 0.5 * matrix.apply(g, x) - 3.0 * matrix.apply(other, x), VALUE)

    def test_wrong_last_axis_is_named(self, matrix_case: MatrixCase) -> None:
        """A wrong width is an error that starts with the name of the argument."""
        matrix, g, x = matrix_case
        message = message_of(ShapeError, lambda: matrix.apply(g, torch.cat((x, x), dim=-1)))
        assert message.startswith("x "), message


def rows_of(vector: Tensor, rows: int) -> Tensor:
    """Different versions of a vector, one for each row: (rows, *vector.shape)."""
    steps = torch.linspace(0.5, 1.5, rows, dtype=vector.dtype).reshape(rows, *(1,) * vector.ndim)
    shift = torch.linspace(-1.0, 1.0, vector.numel(), dtype=vector.dtype).reshape(vector.shape)
    return steps * vector + steps.square() * shift
