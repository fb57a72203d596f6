"""The parameters of an estimator, checked when it is fitted, as scikit-learn wants it."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from whvi.arguments import positive_number, truth, whole_number
from whvi.errors import ArgumentError, InputTypeError

NOISE = {"constant": "output", "input": "input"}
"""What a regressor calls the noise, and what a Gaussian likelihood does."""

MOST_SAMPLES = 1_000_000
"""Functions of a prediction: a bound for what a file can ask for."""


@dataclass(frozen=True)
class Parameters:
    """Plain values, in range."""

    hidden_layer_sizes: tuple[int, ...]
    n_members: int
    posterior: str
    terms: int | None
    layout: str
    block: int | None
    noise: str | None
    """None for a classifier."""
    calibrate: bool
    max_steps: int | None
    batch_size: int | None
    learning_rate: float
    samples: int
    early_stopping: bool
    validation_fraction: float
    patience: int
    compile: bool | None
    """None for "if it pays off"."""
    verbose: bool


def checked(estimator: Any) -> Parameters:
    """The parameters of an estimator as plain values, or the error that says what is wrong with one.

    >>> from types import SimpleNamespace
    >>> checked(SimpleNamespace(hidden_layer_sizes=(8, 0)))
    Traceback (most recent call last):
    ...
    whvi.errors.ArgumentError: hidden_layer_sizes must be at least 1, got 0
    """
    hidden = estimator.hidden_layer_sizes
    sizes = (hidden,) if isinstance(hidden, Integral) else hidden
    if isinstance(sizes, str) or not hasattr(sizes, "__iter__"):
        raise InputTypeError(f"hidden_layer_sizes must be a tuple of ints, got {hidden!r}")
    sizes = tuple(whole_number("hidden_layer_sizes", size) for size in sizes)
    if not sizes:
        raise ArgumentError("hidden_layer_sizes is empty; give at least one hidden layer, such as (128,)")
    if not isinstance(estimator.posterior, str):
        raise InputTypeError(f"posterior must be a name such as 'diagonal', got {estimator.posterior!r}")
    share = positive_number("validation_fraction", estimator.validation_fraction)
    if not share < 1.0:
        raise ArgumentError(f"validation_fraction must be less than 1, got {share}")
    return Parameters(
        hidden_layer_sizes=sizes,
        n_members=whole_number("n_members", estimator.n_members),
        posterior=estimator.posterior,
        terms=_whole_or_none("terms", estimator.terms),
        layout=estimator.layout,
        block=estimator.block,
        noise=_noise(estimator),
        calibrate=truth("calibrate", estimator.calibrate),
        max_steps=_whole_or_none("max_steps", estimator.max_steps),
        batch_size=_whole_or_none("batch_size", estimator.batch_size),
        learning_rate=positive_number("learning_rate", estimator.learning_rate),
        samples=_samples(estimator.samples),
        early_stopping=truth("early_stopping", estimator.early_stopping),
        validation_fraction=share,
        patience=whole_number("patience", estimator.patience),
        compile=_compile(estimator.compile),
        verbose=truth("verbose", estimator.verbose),
    )


def _whole_or_none(name: str, value: Any) -> int | None:
    return None if value is None else whole_number(name, value)


def _compile(value: Any) -> bool | None:
    if isinstance(value, str) and value != "auto":
        raise ArgumentError(f"compile must be True, False or 'auto', got {value!r}")
    return None if isinstance(value, str) else truth("compile", value)


def _samples(value: object) -> int:
    if (found := whole_number("samples", value)) > MOST_SAMPLES:
        raise ArgumentError(f"samples must be at most {MOST_SAMPLES}, got {found}")
    return found


def _noise(estimator: Any) -> str | None:
    if not hasattr(estimator, "noise"):  # classes have none
        return None
    if estimator.noise not in NOISE:
        raise ArgumentError(f"noise must be one of {', '.join(NOISE)}, got {estimator.noise!r}")
    return str(estimator.noise)
