"""Checkpoints of whvi 0.1, which used other names."""

import re
from typing import Any

from whvi.io.checkpoint import SavedState

_HASH = re.compile(r"(\S+) [0-9a-f]{12}")
_SETTINGS = {"beta": "kl_weight", "optimiser": "optimizer"}
_ONE_TARGET: dict[str, Any] = {"positions": 0}
_ADDED: dict[str, dict[str, Any]] = {
    "Plan": {"terms": 1, "columns": 1},
    "Gaussian": _ONE_TARGET,
    "Bernoulli": _ONE_TARGET,
    "Categorical": {"ignore_index": None, **_ONE_TARGET},
}
"""Attributes that classes did not have then, with their former values."""
_CALLBACKS = {"history": "history", "watch": "early_stopping"}
"""Former owners of a state, and the callbacks that replaced them."""


def translated(saved: SavedState) -> SavedState:
    """A checkpoint with the names of this version; one of this version is not changed.

    Version 0.1 also identified functions by a hash of their byte code, which differs between versions of Python.
    """
    state = dict(saved.state)
    if isinstance(identity := state.get("identity"), dict):
        state["identity"] = {name: _renamed(value) for name, value in identity.items() if value is not None}
    if isinstance(algorithm := state.get("identity", {}).get("algorithm"), dict | list):
        settings = [
            {_SETTINGS.get(name, name): value for name, value in one.items()} if isinstance(one, dict) else one
            for one in (algorithm if isinstance(algorithm, list) else [algorithm])
        ]
        state["identity"]["algorithm"] = settings if isinstance(algorithm, list) else settings[0]
    if "callbacks" in state:
        return SavedState(saved.step, saved.tensors, state)
    identity = state.get("identity", {})
    stopping, rows = identity.pop("early_stopping", None), identity.pop("validation", None)
    own = {} if stopping is None else {"early_stopping": {**stopping, **({} if rows is None else {"validation": rows})}}
    state["identity"] = {**identity, "callbacks": own}
    state["callbacks"] = {_CALLBACKS[name]: state.pop(name) for name in tuple(state) if name in _CALLBACKS}
    return SavedState(saved.step, {_with_callbacks(name): tensor for name, tensor in saved.tensors.items()}, state)


def _with_callbacks(name: str) -> str:
    """The name of a tensor now."""
    owner, _, rest = name.partition(".")
    if owner == "best":
        return f"callbacks.early_stopping.{name}"
    return f"callbacks.{_CALLBACKS[owner]}.{rest}" if owner in _CALLBACKS else name


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _renamed(part) for name, part in {**_ADDED.get(str(value.get("class")), {}), **value}.items()}
    if isinstance(value, list):
        return [_renamed(part) for part in value]
    if isinstance(value, str) and (function := _HASH.fullmatch(value)):
        return function[1]
    return value
