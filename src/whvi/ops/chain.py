"""The fused chain S1 H diag(g) H S2 x, with its noise drawn inside the kernel, as differentiable functions."""

from collections.abc import Sequence

from torch import Tensor

from whvi.errors import DeviceError
from whvi.ops import registry
from whvi.ops.chain_step import Chain, Maybe
from whvi.ops.checks import HALF, check_input, check_offset, check_operand, check_scale, check_shape, widened
from whvi.ops.layout import Layout, Shape, noise_layout, plan, spread
from whvi.ops.noise import as_seed, normal
from whvi.ops.recording import in_graph, record


def chain(x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, *, scale: float | None = None) -> Tensor:
    """``scale * s1 * H(g * H(s2 * x))`` in one pass over each row, with numpy broadcasting over the leading axes.

    Args:
        x: (..., D) with D an order (``fwht``); float32, float64, bfloat16 or float16.
        s1: (..., D) outer scales, or None for ones.
        g: (..., D). For K blocks pass x as (B, 1, D), s1 and s2 as (K, D), and g as (D), (K, D), (B, 1, D) or
            (B, K, D): shared, per block, per row, per row and block. The result is then (B, K, D).
        s2: (..., D) inner scales, or None for ones.
        scale: default 1 / D, two orthonormal transforms.

    The parameters have the compute dtype (float64 for float64, otherwise float32) or the dtype of x.
    The backward pass recomputes from x: nothing of the size of x is stored.

    Law: chain(x, s1, g, s2) == s1 * fwht(g * fwht(s2 * x)) / D, in value and in gradients of any order.

    >>> import torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> chain(x, None, torch.ones(2), None)
    tensor([[1., 2.],
            [3., 4.]])
    """
    return sum_of_chains(x, s1, g, s2, scale=scale, summed=False)


def sum_of_chains(
    x: Tensor, s1: Maybe, g: Tensor, s2: Maybe, *, scale: float | None = None, summed: bool = True
) -> Tensor:
    """``chain``, summed over the axes of terms and columns without a tensor for each.

    Args:
        x, s1, g, s2: (..., T, C, K, D), with size 1 if an operand is equal for all terms, columns or blocks.
        scale: default 1 / D.
        summed: False for operands without these axes: one chain.

    Law: equals ``chain(x, s1, g, s2).sum((-4, -3))``, of shape (..., K, D).
    """
    try:  # the kernel checks what it is given; only when it refuses is the reason looked for
        if x.dtype in HALF:
            s1, g, s2 = widened(x, s1), widened(x, g), widened(x, s2)
        layout = plan([x.shape[:-1], _lead(s1), g.shape[:-1], _lead(s2)], stack=True, summed=summed)
        if layout.expand:
            _explain(x, scale, s1=s1, g=g, s2=s2)  # before expand() could make a wrong last axis fit
            x, g = spread(x, layout, summed=summed), spread(g, layout, summed=summed)
            s1, s2 = (None if s is None else spread(s, layout, summed=summed) for s in (s1, s2))
        return _run(x, s1, g, s2, None, None, 0, layout, scale)
    except _REFUSED:
        _explain(x, scale, s1=s1, g=g, s2=s2)
        raise


def noisy_chain(
    x: Tensor,
    s1: Maybe,
    mean: Tensor,
    log_std: Tensor,
    s2: Maybe,
    seed: int | Tensor,
    offset: int = 0,
    *,
    noise_shape: Sequence[int] | None = None,
    scale: float | None = None,
) -> Tensor:
    """``chain`` with g = mean + exp(log_std) * eps, the noise drawn in the kernel and never stored.

    Args:
        x, s1, s2, scale: as in :func:`chain`.
        mean, log_std: (..., D).
        seed: an int, or an int64 scalar tensor from ``draw_seed`` (which works under vmap and torch.compile).
        offset: index of the first number in the stream.
        noise_shape: leading shape of eps; default that of the result: every row of every block has its own draw.
            (B, 1) for x of shape (B, 1, D) makes the blocks of a row share theirs.

    Law: noisy_chain(x, s1, mean, log_std, s2, seed, offset, noise_shape=shape)
    == chain(x, s1, mean + log_std.exp() * normal(seed, offset, (*shape, D)), s2).

    >>> import torch
    >>> x, zero = torch.ones(3, 4), torch.zeros(4)
    >>> y = noisy_chain(x, None, zero, zero, None, seed=7)
    >>> torch.allclose(y, chain(x, None, normal(7, 0, (3, 4)), None))
    True
    """
    return sum_of_noisy_chains(
        x, s1, mean, log_std, s2, seed, offset, noise_shape=noise_shape, scale=scale, summed=False
    )


def sum_of_noisy_chains(
    x: Tensor,
    s1: Maybe,
    mean: Tensor,
    log_std: Tensor,
    s2: Maybe,
    seed: int | Tensor,
    offset: int = 0,
    *,
    noise_shape: Sequence[int] | None = None,
    scale: float | None = None,
    summed: bool = True,
) -> Tensor:
    """``noisy_chain``, summed as ``sum_of_chains``; ``noise_shape`` has the axes of terms, columns and blocks, too."""
    check_offset(offset)
    if noise_shape is not None:
        check_shape("noise_shape", noise_shape)
    try:
        seed = as_seed(seed, x.device)
        std = widened(x, log_std).exp()
        if x.dtype in HALF:
            s1, mean, s2 = widened(x, s1), widened(x, mean), widened(x, s2)
        if seed.device != x.device:
            raise DeviceError(f"seed is on {seed.device}, but x is on {x.device}; use draw_seed(device=x.device)")
        leads = [x.shape[:-1], _lead(s1), mean.shape[:-1], _lead(s2), std.shape[:-1]]
        noise, layout = noise_layout(leads, noise_shape, summed=summed)
        if layout is None:
            g = mean + std * normal(seed, offset, (*noise, x.shape[-1]), dtype=std.dtype)
            return sum_of_chains(x, s1, g, s2, scale=scale, summed=summed)
        return _run(x, s1, mean, s2, std, seed, offset, layout, scale)
    except _REFUSED:
        _explain(x, scale, s1=s1, mean=mean, log_std=log_std, s2=s2)
        raise


def _run(
    x: Tensor,
    s1: Maybe,
    g: Tensor,
    s2: Maybe,
    std: Maybe,
    seed: Maybe,
    offset: int,
    layout: Layout,
    scale: float | None,
) -> Tensor:
    for operand in (s1, g, s2, std):
        if operand is not None and operand.device != x.device:
            raise RuntimeError("devices differ")  # which ones, _explain says
    scale = 1.0 / x.shape[-1] if scale is None else scale
    if type(scale) is not float or scale - scale != 0.0:
        check_scale(scale)
    call = (offset, *layout[:7], scale)
    if in_graph():
        return registry.chain(x, s1, g, s2, std, seed, *call)
    y: Tensor = record(Chain, x, s1, g, s2, std, seed, call)
    return y


_REFUSED = (RuntimeError, AttributeError, TypeError, IndexError, ZeroDivisionError)


def _explain(x: object, scale: object, **operands: object) -> None:
    """Raise an error if an argument does not fit."""
    check_input("x", x)
    check_scale(scale)
    assert isinstance(x, Tensor)
    for name, operand in operands.items():
        if operand is not None or name not in ("s1", "s2"):
            check_operand(name, operand, x)


def _lead(operand: Maybe) -> Shape | None:
    return None if operand is None else operand.shape[:-1]
