"""A layer beside a module: y = module(x) + delta(x), while the module itself stays as it is."""

from collections.abc import Iterator
from typing import Any, Final

from torch import Tensor, nn

from whvi.errors import UnsupportedError

SLOT: Final = "whvi_adapter"
"""Under which name a module has its slot."""


class Slot(nn.Module):
    """The deltas of one module, by the name of their adapter; the active one is a part of the model, others wait.

    What waits is no submodule: optimizers, KL, draws and ``state_dict`` see the active delta alone.

    Args:
        module: it gets this slot as a submodule, and one forward hook, which is the first of its hooks: those that it
            has see the sum.
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
        """Make the delta of an adapter active; no other stays so, also where that adapter has none here."""
        self.waiting = self.deltas
        self.delta = None if name is None else self.waiting.pop(name, None)
        self.name = name or ""

    def leave(self, module: nn.Module) -> None:
        """Take this slot and the hook from the module."""
        self._handle.remove()
        delattr(module, SLOT)


def add_delta(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """The forward hook of an adapted module: its output plus that of the active delta.

    A hook, and no wrapper: types, names, ties and other hooks of the model stay, and torch's encoder layers, whose fast
    path reads weights instead of calling modules, call those that have one.
    """
    delta: nn.Module | None = getattr(module, SLOT).delta
    if delta is None or isinstance(module, nn.MultiheadAttention | nn.RNNBase):  # they add deltas to their weights
        return output
    if not isinstance(output, Tensor):
        raise UnsupportedError(
            f"a delta is added to a tensor, but this {type(module).__name__} gave a {type(output).__name__}; leave it "
            "out of the adapter with skip="
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
