"""How many rows are evaluated at a time."""

from collections.abc import Iterable, Iterator
from math import prod

from torch import Tensor, nn

from whvi.rows import Inputs, tensors

PIECE = 1 << 19
"""Numbers in the widest activation of a piece, about: measured; with less, overhead counts, with more, caches miss."""
_TABLES = (nn.Embedding, nn.EmbeddingBag)
KEPT = 1 << 20
"""Numbers that all functions give for a chunk of rows, at most: quantiles hold them at once."""


def default_rows(model: nn.Module, x: Inputs, functions: int) -> int:
    """Rows in a chunk whose widest activation, of so many functions at once, is about a piece: at least one.

    >>> import torch
    >>> default_rows(nn.Linear(4, 64), torch.zeros(10, 4), 16)
    512
    """
    widest = max(width for tensor in tensors(x) for width in _widths(model, tensor))
    return max(1, PIECE // (functions * max(1, widest)))


def kept_rows(functions: int, numbers: int) -> int:
    """Rows for which one may hold what all functions give, so many numbers each: at least one.

    >>> kept_rows(2000, 512)
    1
    """
    return max(1, KEPT // max(1, functions * numbers))


def _widths(model: nn.Module, x: Tensor) -> Iterator[int]:
    """Guesses at the numbers in an activation, for a row of x: the longest side of a parameter, at each position."""
    inner, pixels = prod(x.shape[1:]), prod(x.shape[2:])
    modules = list(model.modules())
    positions = _positions(modules, x)
    yield inner
    if not any(isinstance(module, _TABLES) or _convolves(module) for module in modules):
        yield positions * _side(model.parameters())  # at once, as it is asked for at every prediction
        return
    for module in modules:
        if isinstance(module, _TABLES):  # a table is looked up, it is not multiplied with
            yield inner * module.embedding_dim
        elif _convolves(module):
            yield pixels * _side(module.parameters())
        else:
            yield positions * _side(module.parameters(recurse=False))


def _positions(modules: list[nn.Module], x: Tensor) -> int:
    """How often linear layers are applied to a row of x: at all but the last axis, or once if they follow a flattening.

    That is seen by a convolution, an ``nn.Flatten``, or a first linear layer that takes as many numbers as a row has.
    """
    if any(isinstance(module, nn.Flatten) or _convolves(module) for module in modules):
        return 1
    if any(isinstance(module, nn.Embedding) for module in modules) and not x.is_floating_point():
        return prod(x.shape[1:])
    first = next((module.in_features for module in modules if _has(module, "in_features")), None)
    return 1 if first == prod(x.shape[1:]) else prod(x.shape[1:-1])


def _convolves(module: nn.Module) -> bool:
    return _has(module, "out_channels") or _has(module, "geometry")


def _has(module: nn.Module, name: str) -> bool:
    """``hasattr`` without parameters, buffers and modules: it is slow for a module without the attribute."""
    return name in vars(module) or hasattr(type(module), name)


def _side(parameters: Iterable[Tensor]) -> int:
    return max((side for parameter in parameters for side in parameter.shape[:2]), default=1)
