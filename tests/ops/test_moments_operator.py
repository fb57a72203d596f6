"""Moments of many vectors: the operator against the expression it stands for, on every way to it."""

import pytest
import torch
from torch import Tensor

from whvi.ops import fallback, native, registry
from whvi.ops import moments as module
from whvi.ops.moments import moments

COEFFICIENTS = (0.7, -1.3, 0.4, 2.5)
SHAPES = {"short": [(4,), (2, 3)], "any shape": [(), (1,), (2, 3, 7), (33,)], "some empty": [(4, 0), (5,)]}


def pairs(shapes: list[tuple[int, ...]], dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(0)
    means, log_stds = ([torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes] for _ in range(2))
    return means, log_stds


def plain(means: list[Tensor], log_stds: list[Tensor], a: float, b: float, c: float, d: float) -> Tensor:
    parts = [(a * m**2 + b * (2 * s).exp() + c * s).sum() for m, s in zip(means, log_stds, strict=True)]
    return torch.stack(parts).sum() + d


@pytest.mark.parametrize("limit", [1 << 15, 0], ids=["short", "long"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_value_and_gradients_of_the_expression(
    shapes: list[tuple[int, ...]], dtype: torch.dtype, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHORT", limit)
    means, log_stds = pairs(shapes, dtype)
    got, expected = moments(means, log_stds, *COEFFICIENTS), plain(means, log_stds, *COEFFICIENTS)
    assert got.shape == ()
    torch.testing.assert_close(got, expected)
    vectors = [*means, *log_stds]
    for a, b in zip(*(torch.autograd.grad(-3 * y, vectors) for y in (got, expected)), strict=True):
        torch.testing.assert_close(a, b)


def test_it_is_one_step_of_autograd_that_keeps_its_inputs_only() -> None:
    (m,), (s,) = pairs([(5,)])
    kept = list[Tensor]()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = moments([m], [s], *COEFFICIENTS)
    assert [t.data_ptr() for t in kept] == [m.data_ptr(), s.data_ptr()]
    assert y.grad_fn is not None
    assert {type(node).__name__ for node, _ in y.grad_fn.next_functions if node} == {"AccumulateGrad"}


def test_changed_inputs_are_noticed() -> None:
    (m,), (s,) = pairs([(5,)])
    y = moments([m], [s], *COEFFICIENTS)
    with torch.no_grad():
        s.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_memory_layout_does_not_matter() -> None:
    base = torch.randn(4, 6, dtype=torch.float64)
    for m, s in ((base.T, base.T), (base[:, ::2], base[:, :3]), (base[:1].expand(3, 6), base[1:])):
        torch.testing.assert_close(moments([m], [s], *COEFFICIENTS), plain([m], [s], *COEFFICIENTS))


def test_sums_of_single_precision_are_accumulated_in_double() -> None:
    if native.instruction_set() is None:
        pytest.skip("there is no native kernel here")
    m = torch.full((1 << 15,), 0.1)
    got = registry.moments([m], [torch.zeros_like(m)], 1.0, 0.0, 0.0, 0.0)
    torch.testing.assert_close(got, m.double().square().sum().float(), rtol=2e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_operator_and_its_form_in_torch(dtype: torch.dtype) -> None:
    means, log_stds = ([v.detach() for v in vectors] for vectors in pairs([(4,), (2, 3)], dtype))
    grad = torch.tensor(-0.3, dtype=dtype)
    twins = [
        [
            operators.moments(means, log_stds, *COEFFICIENTS),
            *operators.moments_backward(grad, means, log_stds, *COEFFICIENTS[:3]),
        ]
        for operators in (registry, fallback)
    ]
    for a, b in zip(*twins, strict=True):
        torch.testing.assert_close(a, b)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(registry.moments, (means, log_stds, *COEFFICIENTS), test_utils=tests)
    torch.library.opcheck(registry.moments_backward, (grad, means, log_stds, *COEFFICIENTS[:3]), test_utils=tests)


def test_what_does_not_fit_is_refused() -> None:
    m, s = torch.zeros(3), torch.zeros(3)
    for means, log_stds in (([m], [s[:2]]), ([m], [s.double()]), ([m.int()], [s.int()]), ([m], []), ([], [])):
        with pytest.raises((RuntimeError, ValueError)):
            registry.moments(means, log_stds, *COEFFICIENTS)
