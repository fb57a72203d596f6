"""Functions of tensors, and their gradients, compiled by torch's Inductor into one graph for each set of shapes.

In small models the overhead of hundreds of operations per step dominates; Inductor fuses most of them. It takes about
ten seconds and a C++ compiler, so it pays off in runs of some thousand steps.
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
from whvi.inference.algorithm import Terms
from whvi.ops.noise import SeedsExhausted
from whvi.ops.recording import closed_graphs
from whvi.ops.torch_private import below_autograd, inductor
from whvi.rows import mapped


def can_compile() -> bool:
    """Whether Inductor finds a C++ compiler."""
    return shutil.which(environ.get("CXX", "g++")) is not None


class Compiled:
    """A function of tensors, and of lists and dictionaries of them, that Inductor compiles at the first call.

    Args:
        function: pure except for changes of its arguments; it computes gradients itself. Other values that it
            reads are those of the first call.

    Law: the values of the function, within rounding.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not can_compile():
            raise UnsupportedError("to compile takes a C++ compiler, and there is none; install g++, or name it in CXX")
        self.function = function
        self._graphs: dict[Any, tuple[Callable[..., Any], list[Any]]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """The function at some arguments; its results have no gradient."""
        tensors: list[Tensor] = []
        flags: list[Any] = []
        mapped(tensors.append, arguments, flags.append)
        shapes = tuple((tensor.shape, tensor.stride(), tensor.dtype, tensor.device) for tensor in tensors)
        key = shapes, tuple(flags)
        with torch.no_grad():
            if key not in self._graphs:
                self._graphs[key] = self._compile(arguments, tensors)
            graph, form = self._graphs[key]
            with below_autograd():  # the graph has its gradients in it; operators need not ask whether to record any
                found = graph(*tensors)
                return mapped(lambda _: None, form[0], lambda place: found[place])

    def _compile(self, arguments: Any, tensors: list[Tensor]) -> tuple[Callable[..., Any], list[Any]]:
        """A graph from a list of tensors to a list of tensors, and the form of what the function returns."""
        form: list[Any] = []

        def flat(*given: Tensor) -> list[Tensor]:
            found: list[Tensor] = []
            parts = iter(given)
            result = self.function(*mapped(lambda _: next(parts), arguments))

            def place(tensor: Tensor) -> int:
                found.append(tensor)
                return len(found) - 1

            form[:] = [mapped(place, result)]
            return found

        copies = [tensor.clone(memory_format=torch.preserve_format) for tensor in tensors]  # tracing computes, too
        with torch.enable_grad(), closed_graphs():
            graph = make_fx(flat)(*copies)
        _check_deterministic(graph)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        return inductor(graph, tensors), form


class Gradients:
    """The terms of a bound, and the gradients of kl_weight * KL - log-likelihood, as one graph.

    Args:
        bound: of learned tensors, tensors by name that are not learned, seeds (..., number), and the batch; it draws in
            ``ops.seeded(..., graphs=True)``, and returns the two terms.
    """

    def __init__(self, bound: Callable[..., tuple[Tensor, Tensor]]) -> None:
        self.bound, self.seeds = bound, 4
        self._weight: tuple[float, Tensor] | None = None
        self._graph = Compiled(self._differentiate)

    def __call__(
        self,
        learned: list[Tensor],
        fixed: dict[str, Tensor],
        seeds: Callable[[int], Tensor],
        kl_weight: float,
        *batch: Any,
    ) -> tuple[Terms, list[Tensor]]:
        """The terms, and a gradient for each learned tensor.

        Args:
            learned: their ``grad`` is not changed.
            fixed: they may change in place.
            seeds: those of the step.
            kl_weight: at this step.
            batch: the other arguments of ``bound``.
        """
        if self._weight is None or self._weight[0] != kl_weight:  # most steps have the weight of the one before
            self._weight = kl_weight, torch.tensor(kl_weight, dtype=torch.float64)
        weight = self._weight[1]
        while True:
            try:
                log_likelihood, kl, gradients = self._graph(learned, fixed, seeds(self.seeds), weight, *batch)
                return Terms(log_likelihood, kl), gradients
            except SeedsExhausted:  # while it is traced, which has changed nothing
                self.seeds *= 4

    def _differentiate(
        self, learned: list[Tensor], fixed: dict[str, Tensor], seeds: Tensor, kl_weight: Tensor, *batch: Any
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        learned = [tensor.detach().requires_grad_() for tensor in learned]
        log_likelihood, kl = self.bound(learned, fixed, seeds, *batch)
        gradients = torch.autograd.grad((kl_weight.to(kl) * kl - log_likelihood).sum(), learned)
        return log_likelihood.detach(), kl.detach(), list(gradients)


def _check_deterministic(graph: GraphModule) -> None:
    for node in graph.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise UnsupportedError(
                f"{node.target} draws from torch's generator, which a compiled graph would draw differently; "
                "do not compile, or use layers of whvi, whose noise comes from seeds"
            )
