"""Sums of chains over terms and columns: the operator against chains added up, in value and gradients of any order."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from alike import assert_same, operands
from torch import Tensor

from whvi.ops import blockwise, canonical, fallback, layout, normal, reference
from whvi.ops.chain import sum_of_chains, sum_of_noisy_chains
from whvi.testing import cover_pairs

# Leading shapes of x, of the scales, of g and of its noise: rows, then terms, columns and blocks.
LAYOUTS = {
    "terms": ((5, 1, 1, 1), (3, 1, 1), (3, 1, 1), (5, 3, 1, 1)),
    "terms of blocks": ((5, 1, 1, 1), (3, 1, 2), (3, 1, 1), (5, 3, 1, 1)),
    "terms of blocks, g per block": ((5, 1, 1, 1), (3, 1, 2), (3, 1, 2), (5, 3, 1, 2)),
    "columns": ((5, 1, 3, 1), (1, 3, 1), (1, 1, 1), (5, 1, 1, 1)),
    "a grid of terms": ((5, 1, 3, 1), (2, 3, 4), (2, 1, 1), (5, 2, 1, 1)),
    "a grid of terms, g per block": ((5, 1, 3, 1), (2, 3, 4), (2, 3, 4), (5, 2, 3, 4)),
    "everything per row": ((5, 1, 3, 1), (5, 2, 3, 4), (5, 2, 1, 1), (5, 2, 1, 1)),
    "draws that serve many rows": ((2, 5, 1, 3, 1), (2, 3, 4), (2, 1, 2, 1, 1), (2, 1, 2, 1, 1)),
    "stacked problems": ((2, 5, 1, 3, 1), (2, 1, 2, 3, 4), (2, 1, 2, 1, 1), (2, 5, 2, 1, 1)),
    "rows more mixed than kernels walk": ((2, 3, 5, 1, 1, 1), (3, 1, 2, 1, 2), (2, 1, 1, 2, 1, 1), (2, 1, 1, 2, 1, 1)),
    "one row": ((1, 1, 3, 1), (2, 3, 2), (2, 1, 1), (1, 2, 1, 1)),
    "no rows": ((0, 1, 3, 1), (2, 3, 2), (2, 1, 1), (0, 2, 1, 1)),
    "nothing but one": ((5, 1, 1, 1), (1, 1, 1), (1, 1, 1), (5, 1, 1, 1)),
    "noise of terms and blocks, not of columns": ((5, 1, 3, 1), (2, 3, 2), (2, 1, 2), (5, 2, 1, 2)),
}
NAMES = tuple(LAYOUTS)
Leads = Sequence[tuple[int, ...]]


def added_up(x: Tensor, s1: Tensor | None, g: Tensor, s2: Tensor | None) -> Tensor:
    lead = torch.broadcast_shapes(*(t.shape for t in (x, s1, g, s2) if t is not None))
    return reference.chain(x, s1, g, s2, 1 / x.shape[-1]).expand(lead).sum((-4, -3))


@pytest.mark.parametrize(
    ("name", "size", "absent"),
    cover_pairs(NAMES, (1, 8, 12, 1024), (0, 1, 2, 3), first=[("terms", 8, 0)]),
)
def test_equals_chains_added_up(name: str, size: int, absent: int) -> None:
    x_lead, s_lead, g_lead, noise = LAYOUTS[name]
    x, s1, g, s2, log_std = operands(size, (x_lead, s_lead, g_lead, s_lead, g_lead))
    a, b = None if absent & 1 else s1, None if absent & 2 else s2
    present = [t for t in (x, a, g, b) if t is not None]
    assert_same(sum_of_chains(x, a, g, b), added_up(x, a, g, b), present)
    eps = normal(11, 5, (*noise, size), dtype=torch.float64)
    expected = added_up(x, a, g + log_std.exp() * eps, b)
    found = sum_of_noisy_chains(x, a, g, log_std, b, 11, 5, noise_shape=noise)
    assert_same(found, expected, [*present, log_std])


@pytest.mark.parametrize("size", [1, 4])
def test_gradcheck_to_second_order(size: int) -> None:
    tensors = operands(size, ((3, 1, 2, 1), (2, 2, 2), (2, 1, 1), (2, 1, 1), (2, 2, 2)))

    def noisy(*tensors: Tensor) -> Tensor:
        x, s1, mean, spread, s2 = tensors
        return sum_of_noisy_chains(x, s1, mean, spread, s2, 3, noise_shape=(3, 2, 1, 1))

    assert torch.autograd.gradcheck(noisy, tensors, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(noisy, tensors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_added_up_in_float32(dtype: torch.dtype) -> None:
    """Many terms of one sign: added up in half precision, the result would stop growing."""
    x = torch.ones(5, 1, 2, 1, 32).to(dtype).requires_grad_()
    s1, g, s2 = (torch.rand(300, 2, 3, 32).requires_grad_() for _ in range(3))
    g = torch.rand(300, 1, 1, 32).requires_grad_()
    y = sum_of_chains(x, s1, g, s2)
    leaves = [t.detach().double().requires_grad_() for t in (x, s1, g, s2)]
    exact = added_up(*leaves)
    unit = torch.finfo(dtype).eps
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=4 * unit, atol=32 * unit)
    dy = torch.randn_like(exact)
    wanted = torch.autograd.grad(exact, leaves, dy.to(dtype).double())
    for leaf, gradient, want in zip(
        (x, s1, g, s2), torch.autograd.grad(y, (x, s1, g, s2), dy.to(dtype)), wanted, strict=True
    ):
        assert gradient.dtype == leaf.dtype
        torch.testing.assert_close(gradient.double(), want, rtol=16 * unit, atol=256 * unit)


def arguments(name: str, size: int, dtype: torch.dtype, noisy: bool, groups: int) -> tuple[Any, ...]:
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    x_lead, s_lead, g_lead, noise = ((groups, *(1,) * (4 - len(s)), *s) for s in LAYOUTS[name])
    plan = layout.plan([x_lead, s_lead, g_lead, s_lead, g_lead, noise], stack=groups > 1, summed=True)
    x, s1, g, s2, std = (torch.randn(*s, size, dtype=compute) for s in (x_lead, s_lead, g_lead, s_lead, g_lead))
    extra = (std, torch.arange(plan.groups) - 2) if noisy else (None, None)
    return x.to(dtype), s1, g, s2, *extra, 5, list(plan.lead), *plan[1:7], 0.5


def chain_of_blocks(*args: Any) -> Tensor:
    """The chain as Triton's kernels know it, (R, B, K, D): block k takes numbers k // repeats % count of a row."""
    x, s1, g, s2, std, seed, offset, rows, blocks, count, repeats, scale = args
    if seed is not None:
        eps = fallback.normal(seed, offset, rows * count * x.shape[-1]).view(len(x), rows, count, x.shape[-1])
        g = g + std * eps.index_select(2, torch.arange(blocks) // repeats % count).to(g.dtype)
    y = reference.chain(x.to(g.dtype), s1, g, s2, scale)
    return y.expand(len(x), rows, blocks, -1).to(x.dtype)


def chain_of_blocks_backward(dy: Tensor, *args: Any) -> tuple[Tensor, ...]:
    *operands, needs = args[:5] + args[-1:]
    wide = [None if t is None else t.to(torch.float64).requires_grad_() for t in operands]
    leaves = {i: t for i, t in enumerate(wide) if t is not None and needs >> i & 1}
    parts = torch.autograd.grad(chain_of_blocks(*wide, *args[5:-1]), list(leaves.values()), dy.to(torch.float64))
    found = dict(zip(leaves, parts, strict=True))
    return tuple(found[i].to(t.dtype) if i in found else args[2].new_empty(0) for i, t in enumerate(operands))


@pytest.mark.parametrize(
    ("name", "dtype", "noisy", "backend"),
    cover_pairs(
        [name for name in NAMES if len(LAYOUTS[name][0]) == 4],
        [torch.float64, torch.float32, torch.bfloat16],
        [False, True],
        ["fallback", "blockwise"],
    ),
)
def test_backends_agree(name: str, dtype: torch.dtype, noisy: bool, backend: str) -> None:
    """The kernel against pure torch, and against pure torch that only knows blocks, as Triton does."""
    chain: Callable[..., Any]
    chain_backward: Callable[..., Any]
    if backend == "fallback":
        chain, chain_backward = fallback.chain, fallback.chain_backward
    else:
        chain, chain_backward = (
            blockwise.forward(chain_of_blocks),
            blockwise.backward(chain_of_blocks_backward),
        )
    given = arguments(name, 12, dtype, noisy, groups=2)
    unit = torch.finfo(dtype).eps
    kernel, twin = torch.ops.whvi.chain(*given), canonical.forward(chain)(*given)
    assert twin.is_contiguous()
    torch.testing.assert_close(kernel, twin, rtol=64 * unit, atol=256 * unit)
    dy = torch.randn_like(kernel)
    needs = 0b11111 if noisy else 0b01111
    for a, b in zip(
        torch.ops.whvi.chain_backward(dy, *given, needs),
        canonical.backward(chain_backward)(dy, *given, needs),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=64 * unit, atol=512 * unit, check_dtype=a.numel() > 0)


def test_opcheck() -> None:
    given = arguments("a grid of terms", 4, torch.float64, True, groups=2)
    tensors = [t.requires_grad_() if isinstance(t, Tensor) and t.is_floating_point() else t for t in given]
    torch.library.opcheck(torch.ops.whvi.chain.default, tuple(tensors))
    y = torch.ops.whvi.chain(*given).detach()
    torch.library.opcheck(torch.ops.whvi.chain_backward.default, (y.requires_grad_(), *tensors, 0b11111))


def test_vmap_of_gradients_equals_loop() -> None:
    shapes = ((3, 5, 1, 2, 1, 4), (2, 2, 3, 4), (3, 2, 1, 1, 4))

    def loss(x: Tensor, s: Tensor, g: Tensor, seed: Tensor) -> Tensor:
        noisy = sum_of_noisy_chains(x, s, g, g, s, seed, noise_shape=(5, 2, 1, 1))
        return noisy.square().sum() + sum_of_chains(x, s, g, None).pow(3).sum()

    x, s, g = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    seeds = torch.arange(100, 103)
    gradient = torch.func.grad(loss, argnums=(0, 1, 2))
    batched = torch.func.vmap(gradient, in_dims=(0, None, 0, 0))(x, s, g, seeds)
    for r in range(3):
        for a, b in zip(batched, gradient(x[r], s, g[r], seeds[r]), strict=True):
            torch.testing.assert_close(a[r], b)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    leads = ((300, 1, 2, 1), (3, 2, 2), (3, 1, 1), (3, 2, 2))
    tensors = operands(256, leads, torch.float32)
    dy = torch.randn(300, 2, 256)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            x, s1, g, s2 = tensors
            y = sum_of_noisy_chains(x, s1, g, g, s2, 7, noise_shape=(300, 3, 1, 1))
            results.append((y, *torch.autograd.grad(y, tensors, dy)))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_one_term_has_the_bits_of_a_chain() -> None:
    from whvi.ops import noisy_chain

    x, s, g = torch.randn(6, 64), torch.randn(3, 64), torch.randn(64)
    alone = noisy_chain(x[:, None], s, g, g, s, 3, noise_shape=(6, 1))
    summed = sum_of_noisy_chains(
        x[:, None, None, None], s[None, None], g, g, s[None, None], 3, noise_shape=(6, 1, 1, 1)
    )
    assert torch.equal(alone, summed)


@pytest.mark.parametrize("stack", [True, False])
def test_layout_keeps_the_last_three_axes(stack: bool) -> None:
    found = layout.plan([(7, 1, 3, 1), (2, 3, 4), (2, 1, 1)], stack=stack, summed=True)
    assert found == ((7, 4), 1, 7, 2, 3, 4, 0b0010_1110_0101, 0)
