"""Digests of the values of tensors, by name."""

from collections.abc import Iterable, Mapping
from hashlib import sha256

import torch
from torch import Tensor, nn

from whvi.nn.swap import own_tensors


def of_modules(modules: Mapping[str, nn.Module]) -> dict[str, str]:
    """The digest of each parameter and buffer of some modules, also of buffers that are not saved.

    >>> one, other = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> other.weight = one.weight
    >>> difference(of_modules({"model": one}), of_modules({"model": other}))
    'other numbers: model.bias'
    """
    return of_tensors(
        (f"{prefix}.{name}", tensor) for prefix, module in modules.items() for name, tensor in own_tensors(module)
    )


def of_tensors(named: Iterable[tuple[str, Tensor]]) -> dict[str, str]:
    """The digest of dtype, shape and numbers of each tensor."""
    return {name: _digest(tensor) for name, tensor in named}


def difference(saved: Mapping[str, str], found: Mapping[str, str]) -> str:
    """The differences of two fingerprints as text; "" if they are equal."""
    other = [name for name in saved if name in found and saved[name] != found[name]]
    missing, more = [name for name in saved if name not in found], [name for name in found if name not in saved]
    kinds = (other, "other numbers"), (missing, "no tensor of this name"), (more, "a tensor that it does not know")
    return "; ".join(f"{what}: {', '.join(names[:3])}{' ...' * (len(names) > 3)}" for names, what in kinds if names)


def _digest(tensor: Tensor) -> str:
    plain = tensor.detach()
    digest = sha256(f"{plain.dtype} {tuple(plain.shape)}".encode())
    if type(tensor) in (Tensor, nn.Parameter) and not plain.is_quantized:  # of others, what they are is all we know
        digest.update(plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]
