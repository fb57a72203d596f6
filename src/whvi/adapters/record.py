"""What a model keeps about its adapters, and which of them is active."""

from dataclasses import dataclass, field

from torch import nn

from whvi.adapters.attention import AdaptedAttention
from whvi.adapters.recipe import Recipe, device_of
from whvi.adapters.recurrent import AdaptedGRU, AdaptedLSTM
from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.beside import SLOT, Slot, slots

ADAPTED: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: AdaptedAttention,
    nn.LSTM: AdaptedLSTM,
    nn.GRU: AdaptedGRU,
}
"""What the classes of modules that read their weights are changed to."""
_RECORD = "whvi_adapters"


@dataclass
class Record:
    """The adapters of a model, and what they changed in it."""

    trainable: tuple[str, ...]
    """Parameters of the base that required a gradient."""
    nested: list[str] = field(default_factory=list)
    """Encoders with adapted layers that were free to pass nested tensors, which only torch's fast path takes."""
    recipes: dict[str, Recipe] = field(default_factory=dict)
    """By name."""
    active: str | None = None


def record_of(model: nn.Module) -> Record:
    """The record of an adapted model."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    record = vars(model).get(_RECORD)
    if not isinstance(record, Record):
        raise ArgumentError(
            f"this {type(model).__name__} has no adapters: call whvi.adapt(model) first, and pass the module that was "
            "adapted, not one of its parts or a wrapper"
        )
    return record


def check_free(model: nn.Module, name: str) -> None:
    """Raise the error that says why a model cannot have an adapter of that name, if it cannot."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(name, str) or not name:
        raise InputTypeError(f"name must be a non-empty string, got {name!r}")
    own = vars(model).get(_RECORD)
    if own is not None and name in own.recipes:
        raise ArgumentError(
            f"this model has an adapter {name!r} already; give another name=, or call whvi.adapters.unload(model) first"
        )
    whole = any(_RECORD in vars(part) for part in model.modules() if part is not model)
    if whole or (own is None and any(slots(model))):
        raise ArgumentError(
            "a part of this model, or a model that this is a part of, has adapters; adapt that one again under another "
            "name=, or call whvi.adapters.unload on it first"
        )


def add(model: nn.Module, name: str, recipe: Recipe, deltas: dict[str, nn.Module]) -> None:
    """Put deltas beside modules, by the modules' names, as an adapter, and make it active."""
    modules = dict(model.named_modules())
    if _RECORD not in vars(model):
        setattr(model, _RECORD, Record(tuple(n for n, p in model.named_parameters() if p.requires_grad)))
    record = record_of(model)
    for path, delta in deltas.items():
        module = modules[path]
        slot = getattr(module, SLOT) if SLOT in dict(module.named_children()) else Slot(module)
        slot.waiting[name] = delta.train(module.training)
        if type(module) in ADAPTED:
            module.__class__ = ADAPTED[type(module)]
    for path, part in modules.items():
        if getattr(part, "use_nested_tensor", False) is True and any(slots(part)):
            part.use_nested_tensor = False
            record.nested.append(path)
    record.recipes[name] = recipe
    use(model, name)


@checked
def use(model: nn.Module, name: str | None) -> None:
    """Activate an adapter of a model and deactivate all others; None for the base alone.

    KL, draws, ``parameters()`` and ``state_dict()`` are those of the active one. Its ``train_base`` determines which
    parameters of the base are trained.

    >>> from whvi.adapters import adapt
    >>> model = nn.Linear(16, 16)
    >>> for name in ("one", "other"):
    ...     _ = adapt(model, name=name)
    >>> use(model, "one")
    """
    record = record_of(model)
    if name is not None and name not in record.recipes:
        raise ArgumentError(f"this model has no adapter {name!r}; it has {', '.join(map(repr, record.recipes))}")
    for _, module, slot in slots(model):
        slot.use(name)
        slot.to(device_of(module))  # a delta that waited did not move with the model
    record.active = name
    set_flags(model, record)


def set_flags(model: nn.Module, record: Record) -> None:
    """Let those parameters of the base learn that the active adapter says."""
    recipe = None if record.active is None else record.recipes[record.active]
    parameters = dict(model.named_parameters())
    for path in record.trainable:
        if path in parameters:  # a head may have been put there since
            parameters[path].requires_grad = recipe is None or recipe.trains(path)  # lazy ones have no requires_grad_


@checked
def unload(model: nn.Module) -> nn.Module:
    """Remove all adapters from a model, which is then the original, bit for bit; returns the model.

    Parameters of the base that were trained jointly (``train_base``) keep their trained values.
    """
    record = record_of(model)
    use(model, None)
    for _, module, slot in slots(model):
        slot.leave(module)
        for plain, adapted in ADAPTED.items():
            if type(module) is adapted:
                object.__setattr__(module, "__class__", plain)
    modules = dict(model.named_modules())
    for path in record.nested:
        if path in modules:
            modules[path].use_nested_tensor = True
    delattr(model, _RECORD)
    return model
