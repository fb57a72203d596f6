"""What a base is known by: a digest of each of its tensors."""

from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256

import torch
from torch import Tensor, nn

from whvi.nn.beside import SLOT
from whvi.nn.parts import BATCH_NORMS


def base_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of a model that are saved with it, without those of deltas, by name, each once."""
    saved = model.state_dict().keys()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if SLOT not in name.split(".") and name in saved:
            yield name, tensor


def moving(model: nn.Module) -> set[str]:
    """Buffers that training moves though nothing learns them: running statistics."""
    found = set()
    for path, module in model.named_modules():
        if isinstance(module, BATCH_NORMS):
            found |= {f"{path}.{name}" if path else name for name, _ in module.named_buffers(recurse=False)}
    return found


def fingerprint(model: nn.Module, without: Collection[str]) -> dict[str, str]:
    """A digest of dtype, shape and numbers of each tensor of the base, by name."""
    return {name: _digest(tensor) for name, tensor in base_tensors(model) if name not in without}


def difference(saved: Mapping[str, str], found: Mapping[str, str]) -> str:
    """What two fingerprints differ in, in words; "" where they are equal."""
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
