"""The settings of a fit: from the command line, and from a TOML file for options that are not given there."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from whvi.errors import ArgumentError
from whvi_tables.task import Task


@dataclass(frozen=True)
class Settings:
    """All settings of ``whvi fit``, by the names of its options and of the keys in a file."""

    target: str
    task: Task | None = None
    """None to guess it."""
    out: Path = Path("model")
    test_share: float = 0.2
    drop: tuple[str, ...] = ()
    steps: int | None = None
    """None, here and below, for the default of the estimator."""
    hidden: tuple[int, ...] | None = None
    seed: int = 0
    level: float = 0.9
    """Of the intervals in the report."""
    posterior: str | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    samples: int | None = None
    noise: str | None = None
    """Of a regression: "constant", or "input" for noise that differs from row to row."""
    early_stopping: bool | None = None

    def for_estimator(self) -> dict[str, Any]:
        """Parameters of the estimator."""
        given = {
            "hidden_layer_sizes": self.hidden,
            "max_steps": self.steps,
            "posterior": self.posterior,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "samples": self.samples,
            "noise": self.noise,
            "early_stopping": self.early_stopping,
        }
        return {"random_state": self.seed, **{name: value for name, value in given.items() if value is not None}}


def settle(options: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The settings of options, where None means "not said", and of a file for what they do not say.

    >>> settle({"target": "price", "hidden": "64,64", "steps": None}).hidden
    (64, 64)
    """
    said = {name: (value, f"--{name.replace('_', '-')}") for name, value in options.items() if value is not None}
    written = {} if config is None else {name: (value, f"{name} in {config}") for name, value in _read(config).items()}
    found = written | said
    if "target" not in found:
        raise ArgumentError("no target was given; pass the column to predict with --target, or in a --config file")
    return Settings(**{name: _READERS[name](value, place) for name, (value, place) in found.items()})


def _read(path: Path) -> dict[str, Any]:
    """The keys of a file, all of them known."""
    if not path.is_file():
        raise ArgumentError(f"--config {path} is not a file; pass a TOML file, with lines such as: steps = 2000")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of TOML, or of UTF-8
        raise ArgumentError(f"{path} cannot be read as TOML: {error}") from error
    known = [field.name for field in fields(Settings)]
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, 1)
            advice = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ArgumentError(f"{path} has the unknown key {name!r}; {advice}")
    return found


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(place, "a text", value)
    return value


def _truth(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, "true or false", value)
    return value


def _whole(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _wrong(place, "a whole number of at least 1", value)
    return value


def _seed(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise _wrong(place, f"a whole number from 0 to {2**32 - 1}", value)
    return value


def _share(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise _wrong(place, "a number between 0 and 1", value)
    return float(value)


def _positive(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise _wrong(place, "a number above 0", value)
    return float(value)


def _task(value: Any, place: str) -> Task | None:
    if value == "auto":
        return None
    if value not in list(Task):
        raise _wrong(place, f"auto, {' or '.join(Task)}", value)
    return Task(value)


def _hidden(value: Any, place: str) -> tuple[int, ...]:
    try:
        parts = [int(part) for part in value.split(",")] if isinstance(value, str) else list(value)
        return tuple(_whole(part, place) for part in parts)
    except (TypeError, ValueError) as error:
        raise _wrong(place, "widths of layers, such as 128,128", value) from error


def _names(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(place, "a list of columns", value)
    return tuple(_text(name, place) for name in value)


def _wrong(place: str, wanted: str, value: Any) -> ArgumentError:
    return ArgumentError(f"{place} must be {wanted}, got {value!r}")


_READERS: dict[str, Any] = {
    "target": _text,
    "task": _task,
    "out": lambda value, place: Path(_text(str(value), place)),
    "test_share": _share,
    "drop": _names,
    "steps": _whole,
    "hidden": _hidden,
    "seed": _seed,
    "level": _share,
    "posterior": _text,
    "batch_size": _whole,
    "learning_rate": _positive,
    "samples": _whole,
    "noise": _text,
    "early_stopping": _truth,
}
