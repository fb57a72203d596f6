"""Product and bias in one step of autograd are the two operators one after the other."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import whvi
from whvi.ops import noisy_bias, noisy_chain, registry
from whvi.ops.noise import KernelNoise
from whvi.ops.product import product

D, K = 8, 3
CASES = {
    "square": ((5,), (), (5,), D),
    "cut": ((5,), (), (5,), 3),
    "stacked": ((5, 1), (K,), (5, 1), K * D),
    "stacked and cut": ((5, 1), (K,), (5, 1), 2 * D + 1),
    "own noise": ((5, 1), (K,), (5, K), K * D),
    "more axes": ((2, 5, 1), (K,), (2, 5, 1), K * D),
    "one draw": ((5,), (), (), D),
    "no rows": ((0,), (), (0,), D),
}


def both(case: str, scales: bool = True) -> tuple[list[Tensor], Callable[..., Tensor], Callable[..., Tensor]]:
    lead, block, noise, features = CASES[case]
    torch.manual_seed(0)
    own = noise[-1:] == (K,)
    shapes = [(*lead, D), (*block, D), (*block, D), (*block, D) if own else (D,), (*block, D) if own else (D,)]
    leaves = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in [*shapes, (features,), (features,)]]
    seed, stacked = torch.tensor(11), bool(block)

    def one(x: Tensor, s1: Tensor, s2: Tensor, *laws: Tensor) -> Tensor:
        s = (s1, s2) if scales else (None, None)
        g = KernelNoise(*laws[:2], seed, noise, 5)
        bias = KernelNoise(*laws[2:], seed.clone(), lead[: len(lead) - stacked], 1 << 40)
        return product(x, s[0], g, s[1], bias, stacked=stacked, features=features)

    def two(x: Tensor, s1: Tensor, s2: Tensor, *laws: Tensor) -> Tensor:
        mean, log_std, bias, bias_log_std = laws
        s = (s1, s2) if scales else (None, None)
        y = noisy_chain(x, s[0], mean, log_std, s[1], seed, 5, noise_shape=noise)
        y = y.flatten(-2) if stacked else y
        return noisy_bias(y[..., :features], bias, bias_log_std, seed, 1 << 40)

    return leaves, one, two


@pytest.mark.parametrize("case", CASES)
def test_equals_the_two_operators(case: str) -> None:
    leaves, one, two = both(case)
    y, expected = one(*leaves), two(*leaves)
    assert torch.equal(y, expected)
    dy = torch.randn_like(y)
    found, wanted = (torch.autograd.grad(z, leaves, dy) for z in (y, expected))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


def test_without_scales() -> None:
    leaves, one, two = both("cut", scales=False)
    leaves = [leaves[0], *leaves[3:]]

    def bare(f: Callable[..., Tensor]) -> Tensor:
        return f(leaves[0], None, None, *leaves[1:])

    dy = torch.randn(5, 3, dtype=torch.float64)
    found, wanted = (torch.autograd.grad(bare(f), leaves, dy) for f in (one, two))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", ["cut", "stacked and cut"])
def test_derivatives_of_higher_order(case: str) -> None:
    leaves, one, _ = both(case)
    assert torch.autograd.gradcheck(one, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(one, leaves)


@pytest.mark.parametrize("frozen", range(7))
def test_gradients_only_where_they_are_wanted(frozen: int) -> None:
    leaves, one, two = both("stacked and cut")
    for i, leaf in enumerate(leaves):
        leaf.requires_grad_(i == frozen)
    y, expected = one(*leaves), two(*leaves)
    dy = torch.randn_like(y).mT.contiguous().mT  # a gradient that is not contiguous
    (a,), (b,) = (torch.autograd.grad(z, leaves[frozen], dy) for z in (y, expected))
    torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


def test_transforms_and_graphs() -> None:
    leaves, one, two = both("stacked and cut")
    torch.compiler.reset()
    compiled = torch.compile(one, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*leaves), two(*leaves))
    stacked = [torch.stack([leaf, -leaf]).detach() for leaf in leaves]
    torch.testing.assert_close(torch.vmap(one)(*stacked)[1], two(*(-leaf for leaf in leaves)))


def test_half_precision_takes_the_two_operators() -> None:
    leaves, one, two = both("cut")
    leaves = [leaf.detach().to(torch.bfloat16 if i == 0 else torch.float32) for i, leaf in enumerate(leaves)]
    assert one(*leaves).dtype == torch.bfloat16
    assert torch.equal(one(*leaves), two(*leaves))


def test_refusals_are_those_of_the_two_operators() -> None:
    leaves, one, _ = both("cut")
    with pytest.raises(whvi.WhviError, match="s1 has shape"):
        one(leaves[0], torch.ones(4, dtype=torch.float64), *leaves[2:])


def test_a_layer_without_numbers_is_refused_and_not_read() -> None:
    """Built on "meta" and never filled."""
    for bias in (True, False):
        with pytest.raises(whvi.WhviError, match="is on meta, but x is on cpu"):
            whvi.nn.WHVILinear(8, 8, bias).to("meta")(torch.randn(3, 8))


@pytest.mark.parametrize("case", [case for case in CASES if case != "one draw"])  # which is never one step
def test_the_operator_and_its_parts(case: str) -> None:
    """The operator of the processor against the composition that serves other devices."""
    leaves, one, _ = both(case)
    given = list[tuple[object, ...]]()

    def noted(*arguments: object) -> Tensor:
        given.append(arguments)
        return registry._product(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "product", noted)
        expected = one(*leaves)
    arguments = tuple(a.detach() if isinstance(a, Tensor) else a for a in given[0])
    assert torch.equal(torch.ops.whvi.product(*arguments), expected)
    dy = torch.randn_like(expected)
    for needs in (0b1111111, 0b1010000, 0b0101010):
        parts = (
            torch.ops.whvi.product_backward(dy, *arguments, needs),
            registry._product_backward(dy, *arguments, needs),
        )
        for a, b in zip(*parts, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(registry.product, arguments, test_utils=tests)
    torch.library.opcheck(registry.product_backward, (dy, *arguments, 0b1111111), test_utils=tests)
