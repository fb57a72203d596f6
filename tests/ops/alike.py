"""Two ways to the same numbers, in value and in gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor


def operands(size: int, leads: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Random tensors (*lead, size) that require gradients."""
    return [torch.randn(*lead, size, dtype=dtype, requires_grad=True) for lead in leads]


def assert_same(fused: Tensor, separate: Tensor, inputs: list[Tensor]) -> None:
    """Equal values, and equal gradients of the inputs."""
    torch.testing.assert_close(fused, separate, rtol=1e-12, atol=1e-12)
    dy = torch.randn_like(separate)
    for a, b in zip(torch.autograd.grad(fused, inputs, dy), torch.autograd.grad(separate, inputs, dy), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)
