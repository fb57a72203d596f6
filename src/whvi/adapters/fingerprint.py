"""What a base is known by: a digest of each of its tensors."""

from collections.abc import Collection, Iterator

from torch import Tensor, nn

from whvi.nn.beside import SLOT
from whvi.nn.fingerprint import of_tensors
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
    return of_tensors((name, tensor) for name, tensor in base_tensors(model) if name not in without)
