"""The structured matrix nearest to a dense one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from whvi.convert.factorise import Factors, factorise, start_signs, xor_spread
from whvi.convert.start import nearest
from whvi.errors import ArgumentError
from whvi.structure import StructuredMatrix, make_plan, parse
from whvi.structure.matrix import xor_fold


def structured(word: str, layout: str, inputs: int, outputs: int, groups: int = 1, share_g: bool = True) -> Tensor:
    """A weight (groups * outputs, inputs) of exactly that structure."""
    plan = make_plan(layout, inputs, outputs)
    each = (groups, *plan.block_shape) if groups > 1 else plan.block_shape
    scales = [torch.randn(each, dtype=torch.float64) for _ in range(word.count("S"))]
    g = torch.randn((plan.size,) if share_g else each, dtype=torch.float64)
    matrix = StructuredMatrix(parse(word), plan, scales, shared=share_g)
    return matrix.dense(g).reshape(groups * outputs, inputs)


def fitted(weight: Tensor, word: str, layout: str, groups: int = 1, share_g: bool = True) -> float:
    plan = make_plan(layout, weight.shape[1], weight.shape[0] // groups)
    start = nearest(weight, parse(word), plan, groups, share_g, 1.0)
    found = StructuredMatrix(parse(word), plan, start.scales, shared=share_g).dense(start.g).reshape(weight.shape)
    error = float((found - weight).norm() / weight.norm())
    assert start.error == pytest.approx(error, abs=1e-12)
    return error


@pytest.mark.parametrize("share_g", [True, False])
@pytest.mark.parametrize(
    ("word", "layout", "inputs", "outputs", "groups"),
    [
        ("SHGHS", "stack", 64, 64, 1),
        ("SHGHS", "stack", 50, 150, 1),
        ("SHGHS", "stack", 36, 30, 2),
        ("SHGHS", "stack", 200, 30, 2),
        ("SHGHS", "stack", 200, 10, 1),
        ("SHGHS", "embed", 100, 40, 1),
        ("SHGHS", "reshape", 1000, 3, 1),
        ("SHGH", "stack", 32, 70, 1),
        ("HGHS", "stack", 64, 64, 1),
        ("HGH", "stack", 32, 32, 1),
    ],
)
def test_an_exactly_structured_weight_is_recovered(
    word: str, layout: str, inputs: int, outputs: int, groups: int, share_g: bool
) -> None:
    weight = structured(word, layout, inputs, outputs, groups, share_g)
    assert fitted(weight, word, layout, groups, share_g) < 1e-6


@pytest.mark.parametrize("shared", [True, False])
def test_the_error_never_rises_and_is_that_of_the_factors(shared: bool) -> None:
    blocks = torch.randn(3, 2, 32, 32, dtype=torch.float64)
    mask = torch.ones_like(blocks)
    mask[:, 1, :, 25:] = 0
    mask[-1, :, 20:] = 0
    fit = factorise(blocks, mask, shared=shared, sweeps=30)
    assert len(fit.losses) > 5
    assert all(after <= before + 1e-13 for before, after in zip(fit.losses, fit.losses[1:], strict=False))
    target = blocks * mask
    actual = (fit.factors.dense() * mask - target).square().sum() / target.square().sum()
    assert fit.losses[-1] == pytest.approx(float(actual), abs=1e-12)


def test_the_last_vector_cannot_be_improved() -> None:
    """The gradient of the squared error by c vanishes: autograd agrees with the closed form."""
    blocks = torch.randn(2, 1, 16, 16, dtype=torch.float64)
    a, b, c = factorise(blocks, torch.ones_like(blocks), shared=True).factors
    c.requires_grad_()
    loss = (Factors(a, b, c).dense() - blocks).square().sum()
    assert float(torch.autograd.grad(loss, c)[0].norm() * c.detach().norm()) < 1e-9 * float(loss.detach())


def test_a_random_weight_cannot_be_matched_and_the_report_says_so() -> None:
    """3 D numbers for D^2 of them: little more than their share of the squares."""
    error = fitted(torch.randn(128, 128, dtype=torch.float64), "SHGHS", "stack")
    assert 0.95 < error < 1.0


def test_other_words_are_fitted_by_gradient_steps() -> None:
    assert fitted(structured("SHGHSH", "stack", 8, 8), "SHGHSH", "stack") < 0.7


def test_g_has_the_size_that_is_asked_for() -> None:
    plan = make_plan("stack", 32, 64)
    start = nearest(torch.randn(64, 32), parse("SHGHS"), plan, 1, True, 0.25)
    assert float(start.g.square().mean().sqrt()) == pytest.approx(0.25, rel=1e-5)
    left, right = (scale.square().mean(-1) for scale in start.scales)
    torch.testing.assert_close(left, right)


def test_a_weight_of_zeros_has_no_error() -> None:
    start = nearest(torch.zeros(8, 8), parse("SHGHS"), make_plan("stack", 8, 8), 1, True, 1.0)
    assert start.error == 0.0
    assert not start.g.any()


def test_nan_is_refused() -> None:
    with pytest.raises(ArgumentError, match="NaN"):
        nearest(torch.full((8, 8), torch.nan), parse("SHGHS"), make_plan("stack", 8, 8), 1, True, 1.0)


def test_spread_is_the_transpose_of_fold() -> None:
    c, x = torch.randn(2, 8, dtype=torch.float64), torch.randn(2, 8, 8, dtype=torch.float64)
    torch.testing.assert_close((xor_spread(c) * x).sum(), (c * xor_fold(x)).sum())
    rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    assert torch.equal(xor_spread(c), c[:, rows ^ columns])


def test_signs_of_a_structured_weight_are_found_up_to_a_walsh_function() -> None:
    a, b, c = torch.randn(3, 2, 1, 32, dtype=torch.float64)
    squares = Factors(a, b, c).dense()
    found_a, found_b = start_signs(squares)
    # What is left has the sign of a function of i xor j alone.
    signs = (squares * found_a.unsqueeze(-1) * found_b.unsqueeze(-2)).sign()
    assert torch.equal(signs, xor_spread(signs[..., 0, :]))


def test_few_rows_of_a_wide_weight_are_not_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of the size of the weight, not of its block: 16 x 1024 are 64 of side 16."""
    seen = []

    def spy(squares: Tensor, *arguments: Tensor, **options: Any) -> object:
        seen.append(tuple(squares.shape))
        return factorise(squares, *arguments, **options)

    monkeypatch.setattr("whvi.convert.start.factorise", spy)
    fitted(torch.randn(10, 1000, dtype=torch.float64), "SHGHS", "stack")
    assert seen == [(1, 64, 16, 16)]
