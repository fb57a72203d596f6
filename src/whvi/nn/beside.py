"""A layer added to a module: y = module(x) + delta(x), without changes to the module itself."""

from collections.abc import Iterator
from typing import Any, Final

from torch import Tensor, nn

from whvi.errors import UnsupportedError

SLOT: Final = "whvi_adapter"
"""The name of the submodule that is the slot."""


class Slot(nn.Module):
    """The deltas of one module, by the name of their adapter. Only the active one is a part of the model.

    Inactive deltas are not submodules: optimizers, KL, draws and ``state_dict`` see only the active delta.

    Args:
        module: it gets this slot as a submodule, and one forward hook, which runs before its other hooks: these
            see the sum.
    """

    delta: nn.Module | None

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.register_module("delta", None)
        self.waiting: dict[str, nn.Module] = {}
        self.name = ""
        self._handle = module.register_forward_hook(add_delta, prepend=True, with_kwargs=True)
        module.add_module(SLOT, self)

    @property
    def deltas(self) -> dict[str, nn.Module]:
        """All of them."""
        return self.waiting if self.delta is None else {**self.waiting, self.name: self.delta}

    def use(self, name: str | None) -> None:
        """Activate the delta of an adapter and deactivate the others, even if that adapter has no delta here."""
        self.waiting = self.deltas
        self.delta = None if name is None else self.waiting.pop(name, None)
        self.name = name or ""

    def leave(self, module: nn.Module) -> None:
        """Remove this slot and the hook from the module."""
        self._handle.remove()
        delattr(module, SLOT)


def add_delta(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """The forward hook of an adapted module: its output plus that of the active delta.

    A hook instead of a wrapper keeps types, names, ties and hooks of the model. torch's encoder layers, whose fast
    path reads weights instead of calling modules, call modules that have a hook.
    """
    delta: nn.Module | None = getattr(module, SLOT).delta
    if delta is None or isinstance(module, nn.MultiheadAttention | nn.RNNBase):  # they add deltas to their weights
        return output
    if not isinstance(output, Tensor):
        raise UnsupportedError(
            f"a delta needs a tensor as output, but this {type(module).__name__} returned a {type(output).__name__}; "
            "exclude it from the adapter with skip="
        )
    return plus(output, delta(next(iter((*args, *kwargs.values())))))


def plus(base: Tensor, delta: Tensor) -> Tensor:
    """base + delta in the precision of the base. Law: for a delta of zeros of either sign, base bit for bit."""
    return base - (0.0 - delta.to(base.dtype))  # -0.0 + 0.0 would be 0.0


def slots(model: nn.Module) -> Iterator[tuple[str, nn.Module, Slot]]:
    """The adapted modules of a model, each once: name, module, slot."""
    for name, module in list(model.named_modules()):
        slot = dict(module.named_children()).get(SLOT)
        if isinstance(slot, Slot):
            yield name, module, slot
