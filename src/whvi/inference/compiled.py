"""A function of tensors as one graph that torch's Inductor has compiled, once for each set of shapes.

Many small models at once cost what their operations cost: hundreds of them a step, most of which Inductor fuses. It
takes some ten seconds for that, and a C++ compiler, so it is for runs of some thousand steps.
"""

import shutil
from collections.abc import Callable
from os import environ
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from whvi.errors import UnsupportedError


def can_compile() -> bool:
    """Whether there is a C++ compiler, as Inductor looks for it."""
    return shutil.which(environ.get("CXX", "g++")) is not None


class Compiled:
    """A function of tensors, and of lists and dictionaries of them, that Inductor compiles when it is first called.

    Args:
        function: pure but for what it changes in its arguments; gradients that it wants it computes itself. What it
            reads besides its arguments is as it was at the first call.

    Law: the values of the function, within rounding.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not can_compile():
            raise UnsupportedError("to compile takes a C++ compiler, and there is none; install g++, or name it in CXX")
        self.function = function
        self._graphs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The function at some arguments; its results have no gradient."""
        key: list[Any] = []
        _map(lambda tensor: key.append((tensor.shape, tensor.dtype, tensor.device)), arguments)
        shapes = tuple(key)
        if shapes not in self._graphs:
            self._graphs[shapes] = torch.compile(self._graph(*arguments), dynamic=False, fullgraph=True)
        with torch.no_grad():
            return self._graphs[shapes](*arguments)

    def _graph(self, *arguments: Any) -> GraphModule:
        copies = _map(Tensor.clone, arguments)  # tracing computes, too, and may change what it is given
        graph = make_fx(self.function)(*copies)
        for node in graph.graph.nodes:
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                raise UnsupportedError(
                    f"{node.target} draws from torch's generator, which a compiled graph would do in its own way; "
                    "do not compile, or use layers of whvi, whose noise comes from seeds"
                )
        graph.graph.eliminate_dead_code()
        graph.recompile()
        return graph


def _map(function: Callable[[Tensor], Any], value: Any) -> Any:
    """The function of each tensor in nested tuples, lists and dictionaries, in the same nesting."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {name: _map(function, part) for name, part in value.items()}
    return type(value)(_map(function, part) for part in value)
