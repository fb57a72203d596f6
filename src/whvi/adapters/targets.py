"""Which modules can have a delta: those that multiply by a weight whose shape is known, torch's and others'."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from whvi.convert.attention import PROJECTIONS, BayesianAttention
from whvi.convert.layers import CONVOLUTIONS, transposed, twin_of
from whvi.nn import BayesianLayer, WHVILinear
from whvi.nn.geometry import geometry_of
from whvi.nn.recurrent import matrices
from whvi.nn.structured import StructuredLayer


class Target(NamedTuple):
    """A weight of a module."""

    make: Callable[..., StructuredLayer]
    """A layer of that shape without a bias, given the other options of ``WHVILinear``."""
    shape: tuple[int, ...]
    """(outputs, inputs), or that of filters."""
    weight: Tensor | None
    """The numbers, of any layout; None where they are not plain floating point, as in quantised modules."""

    @property
    def inputs(self) -> int:
        """Numbers that make up one output."""
        return prod(self.shape[1:])

    @property
    def size(self) -> int:
        """Numbers of the weight."""
        return prod(self.shape)


def targets(module: nn.Module) -> dict[str, Target]:
    """The weights of a module: one, "", or those of attention and recurrent networks; none if it can have no delta."""
    if isinstance(module, BayesianLayer | BayesianAttention):
        return {}
    if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
        return {}
    if isinstance(module, nn.MultiheadAttention):
        return dict(zip(PROJECTIONS, map(_matrix, projections(module)), strict=True))
    if isinstance(module, nn.LSTM | nn.GRU):
        return {name: _matrix(module.get_parameter(f"weight_{name}")) for name in matrices(module)}
    if isinstance(module, CONVOLUTIONS):
        return {"": _filters(module)}
    sizes = linear_sizes(module)
    return {} if sizes is None else {"": _linear(*sizes, getattr(module, "weight", None))}


def linear_sizes(module: nn.Module) -> tuple[int, int] | None:
    """Outputs and inputs of a linear layer: torch's, a quantised one of any maker, transformers' Conv1D."""
    if transposed(module):
        columns, rows = module.get_parameter("weight").shape
        return rows, columns
    if not isinstance(module, nn.Linear):  # by its name; but what has layers of its own does more than multiply
        inner = any(targets(child) for child in module.children())
        if inner or "Linear" not in type(module).__name__:
            return None
    outputs, inputs = getattr(module, "out_features", None), getattr(module, "in_features", None)
    return (outputs, inputs) if isinstance(outputs, int) and isinstance(inputs, int) else None


def projections(attention: nn.MultiheadAttention) -> list[Tensor]:
    """The weights of queries, keys, values and outputs, as views."""
    joint: Any = attention.in_proj_weight
    inner = joint.chunk(3) if joint is not None else [getattr(attention, f"{name}_weight") for name in PROJECTIONS[:3]]
    return [*inner, attention.out_proj.weight]


def _matrix(weight: Tensor) -> Target:
    return _linear(weight.shape[0], weight.shape[1], weight)


def _linear(outputs: int, inputs: int, weight: Any) -> Target:
    return Target(partial(WHVILinear, inputs, outputs, bias=False), (outputs, inputs), _readable(weight))


def _filters(module: nn.Module) -> Target:
    sizes = geometry_of(module)
    first, second = sizes["out_channels"], sizes["in_channels"]
    if "output_padding" in sizes:  # a transposed one has the channels of its input first
        first, second = second, first
    shape = (first, second // sizes["groups"], *sizes["kernel_size"])
    return Target(partial(twin_of(module), bias=False, **sizes), shape, _readable(module.weight))


def _readable(weight: Any) -> Tensor | None:
    """A weight that is plain numbers: no packed integers, no method, no tensor of another library's class."""
    plain = type(weight) in (Tensor, nn.Parameter) and weight.is_floating_point()
    return weight if plain else None
