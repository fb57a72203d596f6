"""Keywords of ``whvi.fit`` in version 0.1, turned into callbacks: they work for one release, with a warning."""

import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, TypedDict

from torch import Tensor

from whvi.arguments import whole_number
from whvi.errors import ArgumentError
from whvi.inference.algorithm import Algorithm
from whvi.inference.callbacks import Callback, Checkpoint, EarlyStopping, Every, History, Moment, Progress, TensorBoard
from whvi.inference.distributed import Distributed

Folder = str | PathLike[str]


class OldKeywords(TypedDict, total=False):
    """What they were."""

    validation: tuple[Tensor, Tensor] | None
    early_stopping: EarlyStopping | None
    callback: Callable[[Moment], bool | None] | None
    callback_every: int
    checkpoint: Folder | None
    checkpoint_every: int
    record_every: int | None
    progress: bool | None
    log_dir: Folder | None
    distributed: bool


_NOW = {
    "validation": "EarlyStopping(validation=(x, y))",
    "early_stopping": "callbacks=[EarlyStopping(...)]",
    "callback": "callbacks=[Every(steps, function)]",
    "callback_every": "callbacks=[Every(steps, function)]",
    "checkpoint": "callbacks=[Checkpoint(folder)]",
    "checkpoint_every": "callbacks=[Checkpoint(folder, every)]",
    "record_every": "callbacks=[History(every)]",
    "progress": "callbacks=[Progress(show)]",
    "log_dir": "callbacks=[TensorBoard(folder)]",
    "distributed": "algorithm=Distributed(SVI())",
}


def in_new_words(
    algorithm: Algorithm | None, old: "OldKeywords", stacklevel: int = 3
) -> tuple[Algorithm | None, list[Callback]]:
    """The algorithm and the callbacks that old keywords stand for; TypeError for a keyword that never was one."""
    given: dict[str, Any] = dict(old)
    unknown = sorted(given.keys() - _NOW.keys())
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")
    if given:
        old_words, new_words = (f"{name}=" for name in given), dict.fromkeys(_NOW[name] for name in given)
        message = f"{', '.join(old_words)} is deprecated: use {', '.join(new_words)}"
        warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
    for name in ("callback_every", "checkpoint_every"):
        whole_number(name, given.get(name, 1000))
    found: list[Callback] = []
    if (every := given.get("record_every")) is not None:
        found.append(History(every))
    stopping, rows = given.get("early_stopping"), given.get("validation")
    if stopping is not None:
        found.append(stopping.on(rows) if rows is not None else stopping)
    elif rows is not None:
        raise ArgumentError("validation rows are for early stopping; give early_stopping=EarlyStopping() too")
    if (function := given.get("callback")) is not None:
        found.append(Every(given.get("callback_every", 1000), function))
    if (folder := given.get("log_dir")) is not None:
        found.append(TensorBoard(folder))
    if (show := given.get("progress")) is not None:
        found.append(Progress(show))
    if (folder := given.get("checkpoint")) is not None:
        found.append(Checkpoint(folder, given.get("checkpoint_every", 1000)))
    return Distributed(algorithm) if given.get("distributed") else algorithm, found
