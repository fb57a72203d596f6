"""Keywords of ``whvi.fit`` in version 0.1, turned into callbacks: they work for one release, with a warning."""

from collections.abc import Callable
from os import PathLike
from typing import Any, TypedDict

from torch import Tensor

from whvi.arguments import whole_number
from whvi.caller import warn_caller
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.algorithm import Algorithm
from whvi.inference.callbacks import Callback, Checkpoint, EarlyStopping, Every, History, Moment, Progress, TensorBoard
from whvi.inference.distributed import Distributed
from whvi.rows import Inputs

Folder = str | PathLike[str]


class OldReplicasKeywords(TypedDict, total=False):
    """Those of ``fit_replicas``."""

    callback: Callable[[Moment], bool | None] | None
    callback_every: int
    checkpoint: Folder | None
    checkpoint_every: int
    record_every: int | None
    progress: bool | None


class OldKeywords(OldReplicasKeywords, total=False):
    """Those of ``fit``."""

    validation: tuple[Inputs, Tensor] | None
    early_stopping: EarlyStopping | None
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
    function: str, algorithm: Algorithm | None, old: OldKeywords | OldReplicasKeywords
) -> tuple[Algorithm | None, list[Callback]]:
    """The algorithm and the callbacks that replace old keywords.

    Args:
        function: the name of the calling function: "fit", or one that fits replicas.

    A keyword that the function never had is an InputTypeError.
    """
    given: dict[str, Any] = dict(old)
    accepted = (OldKeywords if function == "fit" else OldReplicasKeywords).__annotations__
    if unknown := sorted(given.keys() - accepted.keys()):
        now = f"; use {_NOW[unknown[0]]} of whvi.fit" if unknown[0] in _NOW else ""
        raise InputTypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}{now}")
    if given:
        old_words, new_words = (f"{name}=" for name in given), dict.fromkeys(_NOW[name] for name in given)
        message = f"{', '.join(old_words)} is deprecated: use {', '.join(new_words)}"
        warn_caller(message)
    for word in ("callback_every", "checkpoint_every", "record_every"):
        if given.get(word) is not None:
            whole_number(word, given[word])
    found: list[Callback] = []
    if (every := given.get("record_every")) is not None:
        found.append(History(every))
    stopping, rows = given.get("early_stopping"), given.get("validation")
    if stopping is not None:
        found.append(stopping.on(rows) if rows is not None else stopping)
    elif rows is not None:
        raise ArgumentError("validation rows need early stopping; pass early_stopping=EarlyStopping() too")
    if (called := given.get("callback")) is not None:
        found.append(Every(given.get("callback_every", 1000), called))
    if (folder := given.get("log_dir")) is not None:
        found.append(TensorBoard(folder))
    if (show := given.get("progress")) is not None:
        found.append(Progress(show))
    if (folder := given.get("checkpoint")) is not None:
        found.append(Checkpoint(folder, given.get("checkpoint_every", 1000)))
    return Distributed(algorithm) if given.get("distributed") else algorithm, found
