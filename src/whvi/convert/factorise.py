"""The structured matrix that is nearest to a dense one, by alternating least squares.

A block of W = S1 H diag(g) H S2 is W_ij = a_i b_j c_(i xor j), with a and b the diagonals of S1 and S2 and c the
transform of g. Given two of the three vectors, the best third is a ratio of sums for each of its elements; the D x D
system for g is diagonal in c. So a sweep costs what reading W costs.

A block of which only R < D rows are in use, R a power of two, is Q = D / R squares side by side: they share a, and
each has its own part of b and c, because i < R changes the lower bits of j only. So nothing is padded to D x D.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from whvi.ops import fwht
from whvi.structure.elements import xor_fold

TOLERANCE = 1e-4
"""A sweep that takes less than this part off the squared error is the last."""
_POWER_STEPS = 4  # of a power iteration that has to tell signs only


class Factors(NamedTuple):
    """W_ij = a_i b_j c_(i xor j) in each of N x Q squares of side R."""

    a: Tensor
    """(N, 1, R): the left scale."""
    b: Tensor
    """(N, Q, R): the right scale."""
    c: Tensor
    """(N, Q, R), or (1, Q, R) for one that all N blocks share."""

    def dense(self) -> Tensor:
        """The squares: (N, Q, R, R)."""
        return self.a.unsqueeze(-1) * self.b.unsqueeze(-2) * xor_spread(self.c)


class Factorisation(NamedTuple):
    """What the sweeps found."""

    factors: Factors
    losses: list[float]
    """|W - W_hat|^2 / |W|^2 before the first sweep and after each. Law: it never rises."""


def factorise(
    squares: Tensor, mask: Tensor, *, shared: bool, left: bool = True, right: bool = True, sweeps: int = 200
) -> Factorisation:
    """The factors that are nearest to given squares; a matrix that is structured exactly is found, as a rule.

    Args:
        squares: (N, Q, R, R).
        mask: the same shape, 1 where an entry counts and 0 where it is padding.
        shared: one c for all N.
        left, right: whether there are scales on that side; without, they stay at one.
        sweeps: at most so many; each sets a, b and c in turn.

    >>> generator = torch.Generator().manual_seed(0)
    >>> a, b, c = torch.randn(3, 1, 1, 64, dtype=torch.float64, generator=generator)
    >>> squares = Factors(a, b, c).dense()
    >>> factorise(squares, torch.ones_like(squares), shared=True).losses[-1] < 1e-12
    True
    """
    squares = squares * mask
    size = float(squares.square().sum())
    a, b = _start(squares, mask, shared)
    a, b = (x if there else torch.ones_like(x) for x, there in ((a, left), (b, right)))
    c, explained = _core(squares, mask, a, b, shared)
    losses = [_loss(size, explained)]
    for _ in range(sweeps if left or right else 0):
        core = xor_spread(c)
        products, weights = squares * core, core.square_().mul(mask)
        if left:
            above, below = _times(products, b), _times(weights, b.square())
            a = _ratio(above.sum(1, keepdim=True), below.sum(1, keepdim=True), a)
        if right:
            b = _ratio(_times(products.mT, a), _times(weights.mT, a.square()), b)
        c, explained = _core(squares, mask, a, b, shared)
        losses.append(_loss(size, explained))
        if losses[-2] - losses[-1] <= TOLERANCE * losses[-2]:
            break
    return Factorisation(Factors(a, b, c), losses)


def xor_spread(c: Tensor) -> Tensor:
    """The matrix whose entry (i, j) is c_(i xor j): (..., R) -> (..., R, R).

    >>> xor_spread(torch.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [2., 1.]])
    """
    x = c[..., None, None]
    while x.shape[-3] > 1:
        same, other = x[..., 0::2, :, :], x[..., 1::2, :, :]
        x = torch.cat((torch.cat((same, other), -1), torch.cat((other, same), -1)), -2)
    return x.squeeze(-3)


def _start(squares: Tensor, mask: Tensor, shared: bool) -> tuple[Tensor, Tensor]:
    """Signs of a (N, 1, R) and b (N, Q, R) that fit together."""
    each, b = start_signs(squares)
    # Each square may have a Walsh function on its a, b and c. Those of one block must share a, ...
    walsh, sign = _phase(each * each[:, :1])
    b = b * walsh
    a = _sign((each * walsh * sign).sum(1, keepdim=True))
    if shared:  # ... and those of all blocks must share c.
        own, _ = _core(squares, mask, a, b, shared=False)
        walsh, sign = _phase(own * own[:1], together=True)
        a, b = a * walsh, b * walsh * sign
    return a, b


def start_signs(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Signs of a and b of each square for itself, without knowing c: (..., R, R) -> two of (..., R).

    W_ij W_(i xor e)(j xor e) = a_i a_(i xor e) b_j b_(j xor e) c_(i xor j)^2, so the signs of its leading singular
    vectors tell in which a_i and a_(i xor e) differ; the powers of two for e reach all i. All signs that are left open
    (that of a vector, and a Walsh function on all three) give the same W.
    """
    size = squares.shape[-1]
    a, b = torch.ones_like(squares[..., 0]), torch.ones_like(squares[..., 0])
    step = 1
    while step < size:
        partners = squares.unflatten(-1, (-1, 2, step)).unflatten(-4, (-1, 2, step)).flip(-5, -2)
        u, v = _leading_signs(squares * partners.reshape(squares.shape))
        a[..., step : 2 * step] = a[..., :step] * u[..., step : 2 * step]
        b[..., step : 2 * step] = b[..., :step] * v[..., step : 2 * step]
        step *= 2
    return a, b


def _phase(products: Tensor, together: bool = False) -> tuple[Tensor, Tensor]:
    """The Walsh function and the sign by which two vectors differ, from their product: (N, Q, R) -> it, (N, Q, 1).

    Without it the product is a square, so that the transform is largest there.

    Args:
        products: element by element.
        together: one Walsh function for all Q, (N, 1, R), with a sign for each.
    """
    spectrum = fwht(products)
    size = spectrum.abs().sum(1, keepdim=True) if together else spectrum.abs()
    peak = size.argmax(-1, keepdim=True)
    walsh = fwht(torch.zeros_like(size).scatter_(-1, peak, 1.0))
    return walsh, _sign((products * walsh).sum(-1, keepdim=True))


def _leading_signs(x: Tensor) -> tuple[Tensor, Tensor]:
    """Signs of the leading left and right singular vectors, by power iteration: (..., R, R) -> two of (..., R)."""
    largest = x.square().sum(-1).argmax(-1)
    v = x.take_along_dim(largest[..., None, None], -2).squeeze(-2)
    for _ in range(_POWER_STEPS):
        u = normalize(_times(x, v), dim=-1)
        v = _times(x.mT, u)
    return _sign(u), _sign(v)


def _core(squares: Tensor, mask: Tensor, a: Tensor, b: Tensor, shared: bool) -> tuple[Tensor, float]:
    """The best c for given scales, and what it takes off |W|^2."""
    scales = a.unsqueeze(-1) * b.unsqueeze(-2)
    above, below = xor_fold(squares * scales), xor_fold(scales.square_().mul_(mask))
    if shared:
        above, below = above.sum(0, keepdim=True), below.sum(0, keepdim=True)
    c = _ratio(above, below, torch.zeros_like(above))
    return c, float((above * c).sum())


def _ratio(above: Tensor, below: Tensor, before: Tensor) -> Tensor:
    """The minimiser for each element; one that no entry depends on stays as it was."""
    known = below > 0
    return torch.where(known, above / torch.where(known, below, 1.0), before)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """(..., R, R), (..., R) -> (..., R)."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _sign(x: Tensor) -> Tensor:
    """1 or -1, never zero."""
    return torch.ones_like(x).copysign(x)


def _loss(size: float, explained: float) -> float:
    return max(0.0, 1.0 - explained / size) if size > 0.0 else 0.0
