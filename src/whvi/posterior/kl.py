"""Every formula for a KL divergence in the library, in nats, summed, unscaled.

No other module computes one. Prior terms come from ``Prior``: for N(0, P) these are the quadratic form z^T P^-1 z, the
trace of P^-1 with a diagonal matrix, and log det P.
"""

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Tensor

from whvi.ops.moments import moments
from whvi.ops.precision import full_precision
from whvi.ops.recording import record
from whvi.ops.torch_private import watched


def gaussian(
    quadratic: Tensor, trace: Tensor, half_log_det: Tensor, prior_log_det: Tensor | float, size: int
) -> Tensor:
    """KL(N(m, C) || N(0, P)) = (m^T P^-1 m + tr(P^-1 C) + log det P - n) / 2 - log det(C) / 2.

    Args:
        quadratic: m^T P^-1 m, a scalar.
        trace: tr(P^-1 C), a scalar.
        half_log_det: log det(C) / 2, a scalar.
        prior_log_det: log det P.
        size: n, the number of variables.
    """
    return 0.5 * (quadratic + trace + (prior_log_det - size)) - half_log_det


def square(x: Tensor) -> Tensor:
    """|x|^2 -> scalar.

    >>> square(torch.ones(2, 3))
    tensor(6.)
    """
    found: Tensor = (x * x).sum() if watched() else record(_Square, x)
    return found


class _Square(torch.autograd.Function):
    """Autograd's backward would make three passes over the weight matrix; this makes one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gradient: Tensor = 2 * grads[0] * x
        return gradient


def diagonals(means: Sequence[Tensor], log_stds: Sequence[Tensor], variance: float) -> Tensor:
    """Sum of KL(N(m, diag(exp(2 l))) || N(0, variance I)) over pairs (m, l) of tensors of one shape -> scalar.

    = (|m|^2 + |exp(l)|^2) / (2 variance) - sum(l) + n (log(variance) - 1) / 2.
    """
    size = sum([mean.numel() for mean in means])
    return moments(means, log_stds, 0.5 / variance, 0.5 / variance, -1.0, 0.5 * size * (log(variance) - 1.0))


def matrix_gaussian(mean: Tensor, row_root: Tensor, column_root: Tensor, variance: float) -> Tensor:
    """KL(M + L E R^T || N(0, variance I)) for a standard normal E, summed over leading axes -> scalar.

    The covariance is the Kronecker product of L L^T and R R^T: its trace is the product |L|^2 |R|^2 of theirs, and half
    its log-determinant is m log det L + n log det R.

    Args:
        mean: M, (..., n, m).
        row_root: L, triangular with a positive diagonal, (..., n, n).
        column_root: R, the same, (..., m, m).
        variance: of the prior.

    >>> one = torch.eye(2)
    >>> matrix_gaussian(torch.ones(2, 2), one, one, 1.0)
    tensor(2.)
    """
    rows, columns = mean.shape[-2:]
    trace = (row_root.square().sum((-2, -1)) * column_root.square().sum((-2, -1))).sum()
    row_log_det, column_log_det = (r.diagonal(dim1=-2, dim2=-1).log().sum() for r in (row_root, column_root))
    half_log_det = columns * row_log_det + rows * column_log_det
    size = mean.numel()
    return gaussian(square(mean) / variance, trace / variance, half_log_det, size * log(variance), size)


def low_rank_half_log_det(factor: Tensor, log_std: Tensor) -> Tensor:
    """log det(F F^T + diag(s^2)) / 2 by the matrix determinant lemma: (..., D, r), (..., D) -> scalar.

    Time O(D r^2): log det(diag(s^2)) + log det(I + F^T diag(s^-2) F).
    """
    scaled = factor * (-log_std).exp().unsqueeze(-1)
    with full_precision(factor):
        product = scaled.mT @ scaled
    capacity = product + torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    roots: Tensor = torch.linalg.cholesky(capacity).diagonal(dim1=-2, dim2=-1)
    return log_std.sum() + roots.log().sum()


def planar_log_det(slope: Tensor, projection: Tensor) -> Tensor:
    """log |det df/dz| = log(1 + h'(w.z + b) u.w) of one planar step f(z) = z + u h(w.z + b).

    Args:
        slope: h'(w.z + b), (...).
        projection: u.w >= -1, broadcast against it.
    """
    return torch.log1p(slope * projection)


def flow(
    base_half_log_det: Tensor, log_det: Tensor, quadratic: Tensor, prior_log_det: Tensor | float, size: int
) -> Tensor:
    """Unbiased estimate of KL(q_K || N(0, P)) for z_K = f(z_0), z_0 Gaussian with covariance C.

    = -(entropy of z_0) - E[log |det df/dz_0|] - E[log p(z_K)]. The entropy is exact. The paper
    calls the KL of z_0 to the prior of z_K analytic; it is not, because z_K is not linear in z_0.

    Args:
        base_half_log_det: log det(C) / 2, a scalar.
        log_det: mean over the draws of the summed log-determinants, a scalar.
        quadratic: mean over the draws of z_K^T P^-1 z_K, a scalar.
        prior_log_det: log det P.
        size: n, the number of variables.
    """
    return 0.5 * (quadratic + (prior_log_det - size)) - base_half_log_det - log_det


def dropout(weight_square: Tensor, bias_square: Tensor | float, keep: float, prior_variance: float) -> Tensor:
    """KL of MC dropout after Gal and Ghahramani (2016): keep/(2 v) |W|^2 + 1/(2 v) |b|^2, for a prior N(0, v).

    It is the KL of a narrow two-component mixture to the prior, up to a constant that does not depend on W and b.
    """
    return (keep * weight_square + bias_square) * (0.5 / prior_variance)
