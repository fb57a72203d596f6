"""The errors of whvi: each is a `WhviError` and also the built-in error that a caller would expect."""


class WhviError(Exception):
    """Base of every error that whvi raises on purpose."""


class ShapeError(WhviError, ValueError):
    """A tensor has a shape that does not fit."""


class DtypeError(WhviError, TypeError):
    """A tensor has a dtype that the operation does not support."""


class DeviceError(WhviError, ValueError):
    """Tensors are on different devices, or on one without a backend."""


class ArgumentError(WhviError, ValueError):
    """An argument that is not a tensor has an invalid value."""


class UnsupportedError(WhviError, RuntimeError):
    """A combination of features that is not supported, and would give wrong results."""


class InputTypeError(WhviError, TypeError):
    """An argument is of the wrong Python type, such as an array instead of a tensor."""


class MissingPackageError(WhviError, ModuleNotFoundError):
    """A package of an extra is not installed."""


class CheckpointError(WhviError, ValueError):
    """A checkpoint is missing, damaged, or not readable by this version."""


class DivergenceError(WhviError, ArithmeticError):
    """A computation gave NaN or infinite values."""
