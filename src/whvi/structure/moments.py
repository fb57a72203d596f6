"""Mean and variance of W(g) x for independent g and independent x, by a few transforms."""

from torch import Tensor
from torch.nn.functional import pad

from whvi.structure.elements import inverse
from whvi.structure.matrix import StructuredMatrix
from whvi.structure.spec import Permutation, Step
from whvi.structure.squares import Factor, applied, squared


class StructuredMoments:
    """Mean and variance of y = W(g) x from the means and variances of g and x.

    With W = A diag(g) B, t = B E[x], M = E[W], and squares of elements:

        E[y] = A (E[g] * t),   Var[y] = A^2 (Var[g] * (t^2 + B^2 Var[x])) + M^2 Var[x].

    For W = S1 H diag(g) H S2 these are four transforms: the elements of A^2 and B^2 do not depend on g's index, and M^2
    is a dyadic convolution. Terms and blocks beside each other add up; means of terms do so before they are squared.

    Args:
        matrix: W, without leading axes, for which ``known`` is true.
        g_mean, g_variance: of independent elements, as ``matrix.apply`` takes g.
        mean: of x, (N, in_features).
        variance: of the independent elements of x, of the same shape; None if x has no uncertainty.

    Law: mean and variance are exact, for any distribution of g and x with these moments.

    >>> import torch
    >>> from whvi.structure import make_plan, parse
    >>> w = StructuredMatrix(parse("HGH"), make_plan("stack", 2, 2), [])
    >>> y = StructuredMoments(w, torch.ones(2), torch.tensor([0.0, 2.0]), torch.tensor([[3.0, 1.0]]))
    >>> y.mean.round(decimals=3), y.variance.round(decimals=3)
    (tensor([[3., 1.]]), tensor([[2., 2.]]))
    """

    def __init__(
        self, matrix: StructuredMatrix, g_mean: Tensor, g_variance: Tensor, mean: Tensor, variance: Tensor | None = None
    ) -> None:
        self.matrix, self.plan = matrix, matrix.plan
        self.left, self.right = (self._factors(s) for s in (matrix.structure.left, matrix.structure.right))
        self.g_mean, self.g_variance = (self._with_axes(g, matrix.shared) for g in (g_mean, g_variance))
        self.x_variance = variance
        self.inner = applied(self.right, self._pieces(mean))
        self.inner_variance = None if variance is None else squared(self.right, self._pieces(variance))
        square = self.inner.square()
        self.inner_square = square if self.inner_variance is None else square + self.inner_variance

    @staticmethod
    def known(matrix: StructuredMatrix) -> bool:
        """Whether the variance of W has this form: not if an output depends on elements of one g in ways other than H.

        The exceptions are grids whose blocks share g, and reshaped rows.
        """
        return matrix.plan.layout != "reshape" and not (matrix.shared and matrix.plan.columns > 1)

    @property
    def mean(self) -> Tensor:
        """E[y]: (N, out_features)."""
        return self._assembled(applied(self.left, self.g_mean * self.inner))

    @property
    def variance(self) -> Tensor:
        """Var[y]: (N, out_features)."""
        spread = squared(self.left, self.g_variance * self.inner_square)
        if self.x_variance is None:
            return self._assembled(spread)
        if self.plan.terms == 1:
            whole = [*self.right, self.g_mean, *self.left]
            return self._assembled(spread + squared(whole, self._pieces(self.x_variance)))
        shape = self.plan.shared_shape if self.matrix.shared else self.plan.block_shape
        mean = self.matrix.dense(self.g_mean.reshape(shape))
        return self._assembled(spread) + self.x_variance @ mean.square().mT

    def back(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Of u^T y: E[W]^T u, and the part of the variance that g adds; (F, N, out) -> (F, N, in), (F, N).

        The latter is sum_k Var[g_k] (A^T u)_k^2 E[t_k^2], where blocks that share g add up before they are squared;
        only between the variance of x and those of several such blocks nothing is counted.
        """
        plan = self.plan
        missing = plan.rows * plan.size - plan.out_features
        pieces = (pad(u, (0, missing)) if missing else u).unflatten(-1, (1, 1, plan.rows, plan.size))
        outer = applied(_transposed(self.left), pieces)
        added = self._added(outer)
        if self.x_variance is None:  # nobody asks
            return u.new_zeros(()), added
        back = self._whole(applied(_transposed(self.right), self.g_mean * outer))
        back = back.sum((-4, -2)) if plan.terms * plan.rows > 1 else back.squeeze((-4, -2))
        return back.flatten(-2)[..., : plan.in_features], added

    def _added(self, outer: Tensor) -> Tensor:
        """The contribution of g to the variance: (F, N, T, C, K, D) -> (F, N)."""
        plan = self.plan
        if not self.matrix.shared or plan.blocks == 1:
            parts = self._whole(outer.square() * self.inner_square)
            return parts.flatten(-4) @ self.g_variance.expand(parts.shape[-4:]).flatten()
        together = self._whole(outer * self.inner).sum((-3, -2))
        added = together.square().flatten(-2) @ self.g_variance.flatten()
        if self.inner_variance is None:
            return added
        alone = self._whole(outer.square() * self.inner_variance).sum((-3, -2))
        return added + alone.flatten(-2) @ self.g_variance.flatten()

    def _factors(self, steps: tuple[Step, ...]) -> list[Factor]:
        def one(step: Step) -> Factor:
            if step is None:
                return None
            which = self.matrix.permutations, self.matrix.scales
            return self._with_axes(which[0][step.number] if isinstance(step, Permutation) else which[1][step], False)

        return [one(step) for step in steps]

    def _with_axes(self, vectors: Tensor, shared: bool) -> Tensor:
        """With axes of terms, columns and blocks: (T, C, K, D), or (T, 1, 1, D) for one that all blocks share."""
        plan = self.plan
        return vectors.reshape(plan.terms, *((1, 1) if shared else (plan.columns, plan.rows)), plan.size)

    def _pieces(self, x: Tensor) -> Tensor:
        """x, padded with zeros, for each column of blocks: (N, in_features) -> (N, 1, C, 1, D)."""
        plan = self.plan
        missing = plan.columns * plan.size - plan.in_features
        pieces: Tensor = (pad(x, (0, missing)) if missing else x).unflatten(-1, (1, plan.columns, 1, plan.size))
        return pieces

    def _whole(self, y: Tensor) -> Tensor:
        """Expanded to all terms and blocks: (..., T, C, K, D)."""
        plan = self.plan
        return y.expand(*y.shape[:-4], plan.terms, plan.columns, plan.rows, plan.size)

    def _assembled(self, y: Tensor) -> Tensor:
        """Summed over terms and columns, with blocks concatenated: (..., T, C, K, D) -> (..., out_features)."""
        y = self._whole(y)
        y = y.sum((-4, -3)) if self.plan.summed else y.squeeze((-4, -3))
        return y.flatten(-2)[..., : self.plan.out_features]


def _transposed(factors: list[Factor]) -> list[Factor]:
    """H and diagonals are symmetric; the transpose of a permutation is its inverse."""
    return [f if f is None or f.is_floating_point() else inverse(f) for f in reversed(factors)]
