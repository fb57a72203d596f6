"""Moments of a structured product are those of the dense law, for every word, order and layout."""

from typing import Any

import pytest
import torch

from whvi.ops import fwht
from whvi.structure import StructuredMatrix, make_plan, parse, random_permutation
from whvi.structure.moments import StructuredMoments
from whvi.structure.squares import _plain as plain_transform
from whvi.structure.squares import applied, squared
from whvi.testing import cover_pairs

WORDS = ("SHGHS", "SHGH", "GH", "SHGHSH", "SHGPHS", "SPHGHPS", "HGHSHS", "SG", "HPGPHS")
SHAPES: tuple[tuple[str, int, int, dict[str, Any]], ...] = (
    ("stack", 5, 13, {}),
    ("stack", 8, 8, {}),
    ("embed", 5, 3, {}),
    ("grid", 10, 7, {"block": 4}),
    ("stack", 12, 20, {"pad_to": "order"}),
    ("stack", 24, 24, {"pad_to": "order"}),
)


@pytest.mark.parametrize(("word", "shape", "terms", "shared"), cover_pairs(WORDS, SHAPES, (1, 3), (False, True)))
def test_moments_are_those_of_the_dense_law(
    word: str, shape: tuple[str, int, int, dict[str, Any]], terms: int, shared: bool
) -> None:
    torch.manual_seed(0)
    layout, inputs, outputs, options = shape
    plan = make_plan(layout, inputs, outputs, terms, **options)
    structure, options = parse(word), {"dtype": torch.float64}
    scales = [torch.randn(plan.block_shape, **options) for _ in range(structure.scales)]
    permutations = [random_permutation(plan.block_shape) for _ in range(structure.permutations)]
    w = StructuredMatrix(structure, plan, scales, permutations, shared=shared and plan.columns == 1)
    event = plan.shared_shape if w.shared else plan.block_shape
    g, spread = torch.randn(event, **options), torch.rand(event, **options)
    mean, variance = torch.randn(2, inputs, **options), torch.rand(2, inputs, **options)
    u = torch.randn(3, 2, outputs, **options)

    dense, units = w.dense(g), torch.diag(spread.flatten().sqrt()).unflatten(1, event)
    deviations = w.dense(units)
    moved = torch.einsum("qoi,ni->qno", deviations, mean)
    known, uncertain = (StructuredMoments(w, g, spread, mean, v) for v in (None, variance))
    for found in (known, uncertain):
        torch.testing.assert_close(found.mean, mean @ dense.T)
    torch.testing.assert_close(known.variance, moved.square().sum(0))
    second = dense.square() + deviations.square().sum(0)
    torch.testing.assert_close(uncertain.variance, moved.square().sum(0) + variance @ second.T)
    _, added = known.back(u)
    torch.testing.assert_close(added, torch.einsum("fno,qno->fnq", u, moved).square().sum(-1))
    torch.testing.assert_close(uncertain.back(u)[0], u @ dense)


@pytest.mark.parametrize("size", [1, 2, 8, 12, 48])
def test_squared_elements_and_the_transform_of_exported_graphs(size: int) -> None:
    torch.manual_seed(1)
    x, first, second = torch.randn(3, 1, size).double().unbind(0)
    torch.testing.assert_close(plain_transform(x, 0.5), fwht(x, scale=0.5))
    p = torch.randperm(size)
    for factors in ([], [first, p], [p, None, first], [None, first, None], [None, p, None, second, None]):
        columns = applied([f if f is None or f.ndim < 2 else f[0] for f in factors], torch.eye(size).double())
        torch.testing.assert_close(squared(factors, x), x @ columns.square())
