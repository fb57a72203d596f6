"""Orders of Hadamard matrices: D = m 2^k with m = 1, 12, 20, 28 or 36, and the construction of the factor of order m.

The matrix of order D is H_m kron H_(2^k), the factor of order m outside: its stage then adds whole vectors that lie 2^k
elements apart, and what is left are butterflies within contiguous pieces, largest distance first, as for m = 1.

For m = 2 (q + 1) with q = 5, 9, 13, 17, H_m is Paley's second construction (*On orthogonal matrices*, 1933). Let
chi be the quadratic character of GF(q), Q the matrix of all chi(a - b), and S = [[0, 1], [1, Q]], which is symmetric
because q = 1 mod 4. Then H_m = S kron [[1, 1], [1, -1]] + I kron [[1, -1], [-1, -1]].
"""

from collections import Counter
from functools import cache
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from whvi.annotations import checked

FIELDS = {12: 5, 20: 9, 28: 13, 36: 17}
"""The number of elements q of the field that the factor of order m is made of."""


def split(order: int) -> tuple[int, int]:
    """The factors (m, 2^k) of an order; m = 0 where no matrix is known here.

    >>> split(768), split(64), split(30)
    ((12, 64), (1, 64), (0, 30))
    """
    low = order & -order
    odd = order // low if order > 0 else 0
    if odd == 1:
        return 1, order
    return (4 * odd, low // 4) if 4 * odd in FIELDS and low >= 4 else (0, order)


@checked
def is_order(size: int) -> bool:
    """True for sizes that the transform takes.

    >>> [n for n in range(50) if is_order(n)]
    [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48]
    """
    return split(size)[0] > 0


@checked
def next_order(size: int) -> int:
    """The smallest order that is at least ``size``.

    >>> next_order(700), next_order(768), next_order(3500)
    (768, 768, 3584)
    """
    return min(m << max(0, (-(-size // m) - 1).bit_length()) for m in (1, *FIELDS))


@cache
def neighbours(q: int) -> tuple[tuple[int, ...], ...]:
    """For each element a of GF(q), the elements b for which a - b is a square other than zero.

    The field of nine elements is that of x + y i with x, y mod 3 and i^2 = -1; its element number is 3 x + y.

    >>> neighbours(5)
    ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))
    """
    p = 3 if q == 9 else q
    elements = [(x, y) for x in range(p) for y in range(q // p)]
    squares = {((x * x - y * y) % p, 2 * x * y % p) for x, y in elements} - {(0, 0)}
    return tuple(
        tuple(j for j, (x, y) in enumerate(elements) if ((a - x) % p, (b - y) % p) in squares) for a, b in elements
    )


def paley(m: int) -> Tensor:
    """H_m of ones and minus ones for m = 12, 20, 28, 36: (m, m), float64.

    Law: it is symmetric, and its rows are orthogonal: H_m @ H_m == m * I.

    >>> h = paley(12)
    >>> torch.equal(h, h.T), torch.equal(h @ h, 12 * torch.eye(12, dtype=h.dtype))
    (True, True)
    """
    q = FIELDS[m]
    conference = torch.ones(q + 1, q + 1, dtype=torch.float64) - torch.eye(q + 1, dtype=torch.float64)
    character = conference[1:, 1:]
    for a, squares in enumerate(neighbours(q)):
        character[a, [b for b in range(q) if b != a and b not in squares]] = -1
    sums = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    own = torch.tensor([[1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    return torch.kron(conference, sums) + torch.kron(torch.eye(q + 1, dtype=torch.float64), own)


class Additions(NamedTuple):
    """How the sums over the squares around each of q values are formed with few additions.

    The values are numbered 0, ..., q - 1; number q + i is the sum of the two values that ``pairs[i]`` names.
    """

    pairs: tuple[tuple[int, int], ...]
    sums: tuple[tuple[int, ...], ...]
    """Values that make up the sum over ``neighbours`` of each element and, last, the sum over all elements."""


@cache
def additions(m: int) -> Additions:
    """The additions of the stage of order m: the pair that most sums share becomes a value, until no pair is shared.

    With p = u + v and d = u - v of the pairs (u, v) of rows of the stage's input, R the sum over neighbours and t the
    first p (or d) less the sum of the others, the rows of H_m say: the first pair of the result is (sum p + d_0,
    sum d - p_0), the others are (t_p + 2 (R p + u), t_d + 2 (R d - v)). That takes 5, 6, 7 and 8 additions per element
    for m = 12, 20, 28 and 36, where rows of H_m added one by one take m - 1.
    """
    q = FIELDS[m]
    sums = [set(row) for row in neighbours(q)] + [set(range(q))]
    pairs: list[tuple[int, int]] = []
    while True:
        shared = Counter(pair for row in sums for pair in combinations(sorted(row), 2))
        (a, b), count = min(shared.items(), key=lambda item: (-item[1], item[0]))
        if count == 1:
            return Additions(tuple(pairs), tuple(tuple(sorted(row)) for row in sums))
        for row in sums:
            if a in row and b in row:
                row -= {a, b}
                row.add(q + len(pairs))
        pairs.append((a, b))
