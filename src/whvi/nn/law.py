"""The distribution of a structured weight: W is linear in g, so a Gaussian g gives a Gaussian W."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from whvi.errors import UnsupportedError
from whvi.posterior import Point, Posterior
from whvi.posterior.base import wide
from whvi.structure import StructuredMatrix

LIMIT = 4096
"""The largest number of entries of W for the dense covariance of vec(W), which then has 16.8 million numbers."""
_CHUNK = 1 << 22  # numbers of deviations from the mean that are held at a time

_INSTEAD = "sample it instead: layer.weight_at(layer.draw((n,)))"


@dataclass(frozen=True, eq=False, repr=False)
class WeightDistribution:
    """W = sum_k g_k E_k with g ~ N(mean, R R^T), so vec(W) ~ N(A mean, A R R^T A^T), where column k of A is vec(E_k).

    vec stacks columns: entry (i, j) of W has the index j * out_features + i. If each block has its own g, g is the
    concatenation of all. The filters of a convolution are the rows of W, group after group. All attributes are computed
    lazily, from the parameters at the time of the call, and are differentiable.

    Args:
        matrix: W as a function of g.
        g_mean: of the shape that ``matrix`` needs, n numbers.
        g_root: R, of shape (n, q).
        groups: the number of weights in ``matrix``, on an axis before those of the blocks; W is their rows.

    >>> from whvi.nn import WHVILinear
    >>> law = WHVILinear(4, 8).weight_distribution()
    >>> law.row_covariance.shape, law.column_covariance.shape, law.covariance.shape
    (torch.Size([8, 8]), torch.Size([4, 4]), torch.Size([32, 32]))
    """

    matrix: StructuredMatrix
    g_mean: Tensor
    g_root: Tensor
    groups: int = 1

    @property
    def mean(self) -> Tensor:
        """M = E[W]: (out, in)."""
        return self._dense(self.matrix, self.g_mean)

    @property
    def variance(self) -> Tensor:
        """Of each entry of W: (out, in)."""
        return self._sum(lambda x: x.square().sum(0))

    @property
    def row_covariance(self) -> Tensor:
        """U = E[(W - M)(W - M)^T]: (out, out).

        Law: U == row_root @ row_root.T, the covariance of rows summed over the columns.
        """
        return self._sum(lambda x: torch.tensordot(x, x, dims=([0, 2], [0, 2])))

    @property
    def column_covariance(self) -> Tensor:
        """V = E[(W - M)^T (W - M)] / tr(U): (in, in), with trace 1; all zero if nothing is random.

        Law: V == column_root @ column_root.T.
        """
        unscaled = self._sum(lambda x: torch.tensordot(x, x, dims=([0, 1], [0, 1])))
        return unscaled / _positive(unscaled.trace())

    @property
    def row_root(self) -> Tensor:
        """U^(1/2) of the paper: (out, in * q), S1 H T2 for W = S1 H diag(g) H S2.

        Row i of T2 is the column-wise vec of (R_ij (H S2)_ij'), j the row and j' the column: column j' q + j of the
        root is column j' of the deviation of W that unit j of the noise makes.
        """
        return self._deviations(self.g_root).permute(1, 2, 0).flatten(1)

    @property
    def column_root(self) -> Tensor:
        """V^(1/2) of the paper: (in, out * q), S2 H T1 / sqrt(tr U) for W = S1 H diag(g) H S2; T1 is T2 with S1."""
        root = self._deviations(self.g_root).permute(2, 1, 0).flatten(1)
        return root / _positive(root.square().sum()).sqrt()

    @property
    def linear_map(self) -> Tensor:
        """A with vec(W) = A g: (out * in, n).

        Law: A @ g.flatten() == matrix.dense(g).T.flatten().
        """
        return self._map(self.matrix)

    @property
    def covariance(self) -> Tensor:
        """A R R^T A^T, the covariance of vec(W), exactly: (out * in, out * in), of rank n at most; for small W only."""
        self._check_size()
        root = _vec(self._deviations(self.g_root))
        return root @ root.T

    @property
    def matrix_normal_covariance(self) -> Tensor:
        """V kron U, the covariance of vec(W) if W were matrix normal: (out * in, out * in); for small W only.

        It is NOT the distribution of W, contrary to the paper. The matrix normal MN(M, U, V) has the mean, the row
        and the column covariance of W. If both are regular its support has out * in dimensions, and that of W has n.
        """
        self._check_size()
        return torch.kron(self.column_covariance, self.row_covariance)

    def products(self, x: Tensor) -> Tensor:
        """(W - M) x for each unit of noise, whose squares sum to the variance of W x: (N, in) -> (q, N, out)."""
        axes = (self.g_root.shape[1], 1, *self.g_mean.shape)
        return self.matrix.apply(self.g_root.T.reshape(axes), x)

    def lq(self) -> tuple[Tensor, Tensor]:
        """The diagonal of L, (out * in), and Q, (out * in, n): the scales stretch W, the transforms only rotate g.

        W_ij = s1_i s2_j sum_m H_im H_mj g_m: L holds s1_i s2_j, and Q is what unit scales leave of A. K blocks that
        share g repeat Q, so Q is divided by sqrt(K), and L is multiplied by it. For the words [S] H G H [S] on whole
        blocks; others have no such decomposition.

        Law: L[:, None] * Q == linear_map, and Q.T @ Q == I.
        """
        matrix = self.matrix
        plan, word = matrix.plan, matrix.structure.word
        if word.strip("S") != "HGH":
            raise UnsupportedError(f"structure {word!r} has no LQ decomposition; 'SHGHS', 'SHGH', 'HGHS' and 'HGH' do")
        if plan.terms > 1:
            raise UnsupportedError(f"a sum of {plan.terms} terms has no LQ decomposition; a single term has")
        if plan.out_features * plan.in_features != plan.blocks * plan.size**2:
            raise UnsupportedError(
                f"a weight of shape {(plan.out_features, plan.in_features)} does not fill its {plan.blocks} blocks of "
                f"side {plan.size}, so the columns of Q are not orthogonal; use sizes that are multiples of the block"
            )
        repeats = (self.groups * plan.blocks) ** 0.5 if matrix.shared else 1.0
        # At g = (D, 0, 0, ...) the core H G H is all ones and minus ones, so that W has the size of its scales.
        first, unit = torch.zeros_like(self.g_mean), matrix.changed(torch.ones_like)
        first[..., 0] = plan.size
        length = (self._dense(matrix, first) * self._dense(unit, first)).T.flatten()
        rotation = self._map(unit)
        return length * repeats, rotation / repeats

    def _dense(self, matrix: StructuredMatrix, g: Tensor) -> Tensor:
        """W at g: (..., *g_mean.shape) -> (..., out, in)."""
        if self.groups == 1:
            return matrix.dense(g)
        if matrix.shared:
            g = g.unsqueeze(-1 - len(matrix.plan.shared_shape))
        return matrix.dense(g).flatten(-3, -2)

    def _map(self, matrix: StructuredMatrix) -> Tensor:
        """vec of W at each unit vector: (out * in, n)."""
        unit = torch.eye(self.g_mean.numel(), dtype=self.g_mean.dtype, device=self.g_mean.device)
        return _vec(self._dense(matrix, unit.unflatten(1, self.g_mean.shape)))

    def _deviations(self, columns: Tensor) -> Tensor:
        """W - M for each column of the root: (n, q) -> (q, out, in)."""
        return self._dense(self.matrix, columns.T.unflatten(1, self.g_mean.shape))

    def _chunks(self) -> Iterator[Tensor]:
        plan = self.matrix.plan
        count = max(1, _CHUNK // (self.groups * plan.terms * plan.blocks * plan.size**2))
        for columns in self.g_root.split(count, dim=1):
            yield self._deviations(columns)

    def _sum(self, term: Callable[[Tensor], Tensor]) -> Tensor:
        """Sum over the units of noise, a few at a time: all of them at once would be D times as large as W."""
        return reduce(torch.add, map(term, self._chunks()))

    def _check_size(self) -> None:
        plan = self.matrix.plan
        entries = self.groups * plan.out_features * plan.in_features
        if entries > LIMIT:
            raise UnsupportedError(
                f"the covariance of the {entries:,} entries of W has {entries**2:,} numbers; it is computed for "
                f"at most {LIMIT:,} entries; use variance, row_covariance and column_covariance instead"
            )


def weight_distribution(
    matrix: StructuredMatrix, g: Posterior, scales: Iterable[nn.Module], groups: int = 1
) -> WeightDistribution:
    """The distribution of W for the distribution of g, at fixed scales.

    Args:
        matrix: W as a function of g.
        g: a Gaussian or a point.
        scales: the distributions of the scales in ``matrix``, which must be points.
        groups: the number of weights in ``matrix``.
    """
    if not all(isinstance(scale, Point) for scale in scales):
        raise UnsupportedError(f"W is not Gaussian when its scales are random too; {_INSTEAD}")
    try:
        root = g.covariance_root()
    except UnsupportedError as error:
        message = f"the distribution of W has no closed form under a {type(g).__name__}; {_INSTEAD}"
        raise UnsupportedError(message) from error
    mean = wide(g.mean).clone()  # copies, because an optimizer changes parameters in place
    root = root.to(mean.dtype)
    if root.ndim > 2:
        root = torch.block_diag(*root.flatten(0, -3))  # blocks with a g of their own are independent
    return WeightDistribution(matrix.changed(torch.clone), mean, root, groups)


def _positive(trace: Tensor) -> Tensor:
    """One in place of zero, to avoid a division by zero."""
    return torch.where(trace > 0, trace, 1.0)


def _vec(matrices: Tensor) -> Tensor:
    """Each matrix as a column, by stacking its columns: (q, out, in) -> (out * in, q)."""
    return matrices.permute(2, 1, 0).flatten(0, 1)
