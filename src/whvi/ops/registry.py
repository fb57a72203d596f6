"""The dispatcher operators ``whvi::*``: definition, fake kernels and backends. Importing this module registers them.

Operands of the chain are laid out as ``layout.Layout`` says: R groups (each with its own seed) of B rows of T terms, C
columns and K blocks; the result is the sum over terms and columns.
Those of the bias begin with the axes of seed: y (groups..., rows..., N), mean and log_std (groups..., N).
``product`` is the two one after the other. ``product`` and ``moments`` record no gradient: what calls them does.
The public functions in ``transform``, ``chain``, ``bias`` and ``noise`` add checks, broadcasting, autograd
and vmap.

In graphs (torch.compile, torch.export) an operator carries autograd. Eager execution records an autograd.Function and
calls the operator below autograd, because a Python autograd kernel costs half as much again as a small product.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from whvi.errors import UnsupportedError
from whvi.ops import canonical, fallback, native
from whvi.ops.interface import SCHEMAS
from whvi.ops.torch_private import below_autograd, forward_mode_records, traced, transforms_active, without_autograd

_library = torch.library.Library("whvi", "DEF")
for _name, _schema in SCHEMAS.items():
    _library.define(_name + _schema)


def _product(*args: Any) -> Tensor:
    """``chain`` with its noise, cut to the features of the bias, and ``noisy_bias``."""
    x, s1, s2, mean, log_std, bias_mean, bias_log_std, seed, bias_seed, *call, bias_offset, stacked = args
    y = chain(x, s1, mean, s2, log_std.exp(), seed, *call)
    y = y.flatten(-2) if stacked else y
    return noisy_bias(y[..., : bias_mean.shape[-1]], bias_mean, bias_log_std, bias_seed, bias_offset)


def _product_backward(dy: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """Gradients of x, s1, mean, s2 and log_std, then of the bias; what a bit of ``needs`` does not ask for is empty."""
    x, s1, s2, mean, log_std, _, bias_log_std, seed, bias_seed, *call, bias_offset, _, needs = args
    of_bias = noisy_bias_backward(dy, bias_log_std, bias_seed, bias_offset, needs >> 5)
    shape = (*call[1], x.shape[-1])
    missing = prod(shape[dy.ndim - 1 :]) - dy.shape[-1]  # elements that were cut off do not affect the result
    std = log_std.exp()
    *parts, dstd = chain_backward(pad(dy, (0, missing)).reshape(shape), x, s1, mean, s2, std, seed, *call, needs & 31)
    return *parts, dstd * std if needs & 16 else dstd, *of_bias


def _install(backend: Any, key: str, chain: Callable[..., Any], chain_backward: Callable[..., Any]) -> None:
    """Register a backend whose chain takes operands of canonical shape (canonical.py).

    The bias is elementwise apart from its normals, which come by the operator: one form of it in torch serves every
    backend.
    """
    kernels = {
        "fwht": backend.fwht,
        "fwht_out": backend.fwht_out,
        "normal": backend.normal,
        "chain": canonical.forward(chain),
        "chain_backward": canonical.backward(chain_backward),
        "noisy_bias": fallback.noisy_bias,
        "noisy_bias_backward": fallback.noisy_bias_backward,
        "moments": fallback.moments,
        "moments_backward": fallback.moments_backward,
        "product": _product,
        "product_backward": _product_backward,
    }
    for name, kernel in kernels.items():
        _library.impl(name, kernel, key)


# The pure-torch form serves every device; a kernel registered for one device takes its place there.
_install(fallback, "CompositeExplicitAutograd", fallback.chain, fallback.chain_backward)
native.load()
if torch.cuda.is_available() and native.triton_version() is not None:
    from whvi.ops import blockwise, triton_backend

    of_sums = blockwise.forward(triton_backend.chain), blockwise.backward(triton_backend.chain_backward)
    _install(triton_backend, "CUDA", *of_sums)


def _fake_fwht(x: Tensor, scale: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_fwht_out(x: Tensor, scale: float, out: Tensor) -> None:
    return None


def _fake_normal(seed: Tensor, offset: int, numel: int) -> Tensor:
    return torch.empty(seed.shape[0], numel, dtype=torch.float32, device=seed.device)


def _fake_chain(x: Tensor, *rest: Any) -> Tensor:
    lead = rest[6]
    return x.new_empty(*lead, x.shape[-1])


def _fake_chain_backward(dy: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return _fake_gradients(rest[:5], rest[-1])


def _fake_gradients(operands: Sequence[Any], needs: int) -> tuple[Tensor, ...]:
    return tuple(
        operands[2].new_empty(0)
        if operand is None or not needs >> i & 1
        else torch.empty_like(operand, memory_format=torch.contiguous_format)
        for i, operand in enumerate(operands)
    )


def _fake_noisy_bias(y: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def _fake_noisy_bias_backward(
    dy: Tensor, log_std: Tensor, seed: Tensor, offset: int, needs: int
) -> tuple[Tensor, Tensor]:
    mean, std = (
        torch.empty_like(log_std, memory_format=torch.contiguous_format) if needs >> i & 1 else log_std.new_empty(0)
        for i in range(2)
    )
    return mean, std


def _fake_product(x: Tensor, *rest: Any) -> Tensor:
    bias, lead, stacked = rest[4], rest[9], rest[-1]
    return x.new_empty(*(lead[:-1] if stacked else lead), bias.shape[-1])


def _fake_product_backward(dy: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    x, s1, s2, *others = rest[:7]
    return _fake_gradients((x, s1, others[0], s2, *others[1:]), rest[-1])


def _fake_moments(means: list[Tensor], *rest: Any) -> Tensor:
    return means[0].new_empty(())


def _fake_moments_backward(grad: Tensor, means: list[Tensor], log_stds: list[Tensor], *rest: Any) -> list[Tensor]:
    return [torch.empty_like(vector, memory_format=torch.contiguous_format) for vector in (*means, *log_stds)]


for _name in SCHEMAS:
    torch.library.register_fake(f"whvi::{_name}", globals()[f"_fake_{_name}"], lib=_library)


def differentiate(name: str, apply: Callable[..., Any], vmap: Callable[..., Any]) -> None:
    """Give the operator ``whvi::name`` its gradient (``apply`` records it) and its vmap rule."""
    operator = getattr(torch.ops.whvi, name).default

    def autograd(*args: Any) -> Any:
        if transforms_active():  # only torch.func on a graph gets here, and it would lose gradients without a word
            raise UnsupportedError(
                "whvi operators in a compiled or exported graph are not differentiated by torch.func; use "
                "torch.autograd.grad outside of it, or leave torch.compile and torch.export away"
            )
        backward = torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        if backward or forward_mode_records():
            return apply(*args)
        with below_autograd():
            return operator(*args)

    _library.impl(name, autograd, "Autograd")
    torch.library.register_vmap(f"whvi::{name}", vmap, lib=_library)


def _direct(name: str) -> Callable[..., Any]:
    """The operator for callers that record gradients themselves, or need none."""
    operator = getattr(torch.ops.whvi, name).default
    alone = without_autograd(operator)

    def call(*args: Any) -> Any:
        return operator(*args) if traced() else alone(*args)

    return call


fwht: Callable[..., Tensor] = _direct("fwht")
fwht_out: Callable[..., None] = _direct("fwht_out")
normal: Callable[..., Tensor] = _direct("normal")
chain: Callable[..., Tensor] = _direct("chain")
chain_backward: Callable[..., tuple[Tensor, ...]] = _direct("chain_backward")
noisy_bias: Callable[..., Tensor] = _direct("noisy_bias")
noisy_bias_backward: Callable[..., tuple[Tensor, Tensor]] = _direct("noisy_bias_backward")
# No tracer gets here, and these have no kernel for autograd that would have to be passed by.
product: Callable[..., Tensor] = torch.ops.whvi.product.default
moments: Callable[..., Tensor] = torch.ops.whvi.moments.default
moments_backward: Callable[..., list[Tensor]] = torch.ops.whvi.moments_backward.default
product_backward: Callable[..., tuple[Tensor, ...]] = torch.ops.whvi.product_backward.default
