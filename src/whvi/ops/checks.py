"""Checks of the inputs of operators, with their errors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.errors import ArgumentError, DeviceError, DtypeError, InputTypeError, ShapeError
from whvi.ops.orders import is_order, next_order
from whvi.ops.recording import must_record
from whvi.ops.torch_private import traced

HALF = (torch.bfloat16, torch.float16)
_LARGEST = torch.finfo(torch.float64).max
FLOATING = (torch.float32, torch.float64, *HALF)


def compute_dtype(storage: torch.dtype) -> torch.dtype:
    """The compute dtype of a dtype: float64 for float64, otherwise float32."""
    return torch.float64 if storage == torch.float64 else torch.float32


def widened(x: Tensor, operand: Any) -> Any:
    """A half-precision parameter converted to float32, the compute dtype of x."""
    return operand.float() if x.dtype in HALF and operand is not None and operand.dtype == x.dtype else operand


def check_input(name: str, x: object) -> None:
    """A floating-point tensor whose last axis is an order of a Hadamard matrix."""
    if not isinstance(x, Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}; convert it with torch.as_tensor")
    if x.dtype not in FLOATING:
        raise DtypeError(
            f"{name} has dtype {x.dtype}; the transform takes float32, float64, bfloat16 and float16: use .to(dtype)"
        )
    if x.ndim == 0:
        raise ShapeError(f"{name} is a scalar; the transform needs at least one axis")
    size = x.shape[-1]
    if size == 0:
        raise ShapeError(
            f"the last axis of {name} is empty (shape {tuple(x.shape)}); its size must be 1, 2, 4, 8, 12, ..."
        )
    if not is_order(size):
        wanted = next_order(size)
        raise ShapeError(
            f"the last axis of {name} has size {size}, which is neither a power of two nor 12, 20, 28 or 36 times one; "
            f"the next size that works is {wanted}: whvi.pad({name}, {wanted}) appends zeros up to it"
        )


def check_out(x: Tensor, out: object) -> None:
    """``out`` can store the transform of ``x``: same shape, dtype and device, contiguous, and x itself or disjoint."""
    if not isinstance(out, Tensor):
        raise InputTypeError(f"out must be a torch.Tensor, got {type(out).__name__}")
    if out.shape != x.shape:
        raise ShapeError(f"out has shape {tuple(out.shape)}, but x has shape {tuple(x.shape)}")
    if out.dtype != x.dtype:
        raise DtypeError(f"out has dtype {out.dtype}, but x has dtype {x.dtype}")
    if out.device != x.device:
        raise DeviceError(f"out is on {out.device}, but x is on {x.device}")
    if not out.is_contiguous():
        raise ArgumentError("out must be contiguous; pass out.contiguous() or omit out=")
    if torch.is_grad_enabled() and (must_record(x) or out.requires_grad):
        raise ArgumentError("out= does not record gradients; omit out= or use torch.no_grad()")
    if traced():  # tensors without memory
        return
    same = out.data_ptr() == x.data_ptr() and x.is_contiguous()
    apart = out.data_ptr() + out.nbytes <= x.data_ptr() or x.data_ptr() + _span(x) <= out.data_ptr()
    if not same and not apart and x.numel() > 0:
        raise ArgumentError("out shares memory with x; pass x itself or a separate tensor")


def _span(x: Tensor) -> int:
    """Bytes from the first to the end of the last element of a strided tensor."""
    return (1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))) * x.element_size()


def check_scale(scale: object, *, optional: bool = True) -> None:
    """A finite number, or None for the default, where there is one."""
    if isinstance(scale, Tensor):
        raise InputTypeError("scale must be a number, got a tensor, which would lose its gradient; multiply the result")
    if scale is None and optional:
        return
    if not isinstance(scale, int | float | torch.SymFloat | torch.SymInt) or isinstance(scale, bool):
        raise InputTypeError(f"scale must be a number, got {type(scale).__name__}")
    if isinstance(scale, int | float) and not abs(scale) <= _LARGEST:
        raise ArgumentError(f"scale must be finite, got {scale!r:.40}")


def check_operand(name: str, operand: object, x: Tensor, *, of: str = "x") -> None:
    """A parameter of x (named ``of``): last axis as x, same device, the compute dtype of x or x's own."""
    compute = compute_dtype(x.dtype)
    if not isinstance(operand, Tensor):
        raise InputTypeError(f"{name} must be a torch.Tensor or None, got {type(operand).__name__}")
    if operand.dtype not in (compute, x.dtype):
        raise DtypeError(
            f"{name} has dtype {operand.dtype}, but {of} has {x.dtype}; {name} must be {compute} or {x.dtype}"
        )
    if operand.device != x.device:
        raise DeviceError(f"{name} is on {operand.device}, but {of} is on {x.device}")
    if operand.ndim == 0 or operand.shape[-1] != x.shape[-1]:
        raise ShapeError(f"{name} has shape {tuple(operand.shape)}; its last axis must be that of {of}, {x.shape[-1]}")


def check_offset(offset: object) -> None:
    """An index in the stream of normals."""
    if not isinstance(offset, int | torch.SymInt) or isinstance(offset, bool):
        raise InputTypeError(f"offset must be an int, got {type(offset).__name__}")
    if not 0 <= offset < 2**62:
        raise ArgumentError(f"offset must be from 0 to 2^62 - 1, got {offset}")


def check_shape(name: str, shape: object) -> None:
    """A sequence of sizes."""
    if isinstance(shape, str) or not isinstance(shape, Sequence) or not all(map(_is_size, shape)):
        raise InputTypeError(f"{name} must be a sequence of ints, got {shape!r}")
    if any(size < 0 for size in shape):
        raise ArgumentError(f"{name} must not have negative sizes, got {tuple(shape)}")


def _is_size(size: object) -> bool:
    return isinstance(size, int | torch.SymInt) and not isinstance(size, bool)


def check_seed(seed: object) -> None:
    """An int64 scalar tensor, as ``draw_seed`` gives."""
    if not isinstance(seed, Tensor):
        raise InputTypeError(f"seed must be an int or an int64 tensor from draw_seed, got {type(seed).__name__}")
    if seed.dtype != torch.int64:
        raise DtypeError(f"seed must be an int64 scalar tensor, got {seed.dtype}")
    if seed.ndim != 0:
        raise ShapeError(f"seed must be a scalar tensor, got one of shape {tuple(seed.shape)}")
