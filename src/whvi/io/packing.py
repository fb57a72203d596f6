"""Tensors to the bytes of a safetensors file and back, bit for bit."""

from collections.abc import Mapping

import safetensors.torch
import torch
from torch import Tensor

from whvi.errors import ArgumentError, DeviceError, DtypeError, InputTypeError

DTYPES = frozenset(
    {
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.bool),
        *(torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    }
)
"""What every safetensors that whvi works with can both write and read."""


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    """The safetensors file of tensors of any shape, strides and device; those that share memory are written each.

    Law: unpack(pack(tensors)) has the same names, shapes, dtypes and bits.
    """
    if not isinstance(tensors, Mapping):
        raise InputTypeError(f"tensors must be a mapping from names to tensors, got {type(tensors).__name__}")
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        _check(name, tensor)
        one = tensor.detach().resolve_neg().cpu().contiguous()
        memory = one.untyped_storage().data_ptr()
        plain[name] = one.clone() if memory in seen else one  # safetensors refuses shared memory
        seen.add(memory)
    return safetensors.torch.save(plain)


def unpack(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU and in the order of their names; ArgumentError if it is none.

    >>> unpack(pack({"b": torch.ones(2), "a": torch.tensor(3)}))
    {'a': tensor(3), 'b': tensor([1., 1.])}
    """
    try:
        tensors = safetensors.torch.load(data)
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # a bad header shows as errors of many types
        raise ArgumentError(f"it is not a safetensors file that can be read ({error!r:.200})") from error
    # A copy is aligned as torch aligns; a slice of a file is not, and the last bits of a product may depend on that.
    return {name: tensors[name].clone() for name in sorted(tensors)}


def _check(name: str, tensor: Tensor) -> None:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        raise InputTypeError(f"tensors must map str to Tensor, got {name!r} with {type(tensor).__name__}")
    if name == "__metadata__":
        raise ArgumentError(
            "a tensor cannot be called '__metadata__', as safetensors has its own use for that; rename it"
        )
    if tensor.is_meta:
        raise DeviceError(f"tensor {name!r} is on the meta device and has no values to save; move it to a real device")
    if tensor.layout is not torch.strided:
        raise InputTypeError(f"tensor {name!r} must be dense, got layout {tensor.layout}; call to_dense() on it")
    if tensor.dtype not in DTYPES:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in DTYPES))
        raise DtypeError(
            f"tensor {name!r} has dtype {tensor.dtype}, but a checkpoint supports {names}; save a view of it"
        )
